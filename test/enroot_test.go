package test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// startContainer does with the hook what `enroot start` does (enroot
// src/runtime.sh:_start): in a user namespace and as the user, after the image's
// environment is written and /dev is there, and before the mounts that hooks ask
// for are made. It prints what the program in the container would find.
const startContainer = `
set -euo pipefail
root=$1 hook=$2
exec 3<>/dev/null
mount -t tmpfs tmpfs /dev
mkdir /dev/infiniband
touch /dev/infiniband/uverbs1 /dev/infiniband/rdma_cm
mount -t tmpfs tmpfs "$root"
mkdir "$root/dev"
export ENROOT_PID=$$ ENROOT_ROOTFS=$root ENROOT_ENVIRON=$root/environ ENROOT_MOUNTS=$root/mounts
printf 'NCCL_IB_HCA=the-image\nNCCL_DEBUG=the-image\nMELLANOX_VISIBLE_DEVICES=all\n' >"$ENROOT_ENVIRON"
: >"$ENROOT_MOUNTS"
if [ -z "${ENROOT_RESTRICT_DEV-}${ENROOT_UNSHARE_IPC-}" ]; then
	mount --rbind /dev "$root/dev"
fi
"$hook" <&3 >&3
while read -r source target type options pass; do
	[[ $options == x-create=dir,rbind,* && $type == none ]] || exit 9
	mkdir -p "$root$target"
	mount --rbind "$source" "$root$target"
	mount -o "remount,bind,${options#x-create=dir,rbind,}" "$root$target"
done <"$ENROOT_MOUNTS"
cat "$ENROOT_ENVIRON"
echo "devices $(cd "$root/dev/infiniband" 2>&3 && echo *)"
`

// folder returns one that the job's user reaches and may write to.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// container starts one in a task's environment and returns its environment, by
// the last line of a name, and its devices. The task is a user's, and so all that the
// hook may do is what a user may.
func container(t *testing.T, environment ...string) (variables map[string]string, devices string) {
	t.Helper()
	text, err := os.ReadFile("../conf/60-gresnet.sh")
	if err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(folder(t), "60-gresnet.sh")
	if err := errors.Join(os.WriteFile(hook, text, 0o700), os.Chmod(hook, 0o755)); err != nil {
		t.Fatal(err)
	}
	words := []string{"unshare", "--user", "--map-root-user", "--mount", "bash", "-c", startContainer, "bash", folder(t), hook}
	if os.Geteuid() == 0 {
		words = append([]string{"setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"}, words...)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, environment...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("start a container: %v\n%s", err, out)
	}
	variables = map[string]string{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if list, ok := strings.CutPrefix(line, "devices "); ok {
			devices = list
		} else if name, value, ok := strings.Cut(line, "="); ok {
			variables[name] = value
		} else {
			t.Errorf("not a variable: %q", line)
		}
	}
	return variables, devices
}

// task returns a task's variables of the plugin, and more.
var task = []string{
	"GRESNET_JOB=4711", "GRESNET_HCAS=mlx5_1", "GRESNET_VARIABLES=NCCL_IB_HCA,UCX_NET_DEVICES,MELLANOX_VISIBLE_DEVICES",
	"NCCL_IB_HCA==mlx5_1:1", "UCX_NET_DEVICES=mlx5_1:1", "MELLANOX_VISIBLE_DEVICES=none",
	"NCCL_DEBUG=the-task", "LD_PRELOAD_NOT=x",
}

func TestAContainersImageDoesNotOverrideTheJobsVariables(t *testing.T) {
	variables, devices := container(t, task...)
	for name, want := range map[string]string{
		"GRESNET_JOB": "4711", "GRESNET_HCAS": "mlx5_1",
		"NCCL_IB_HCA": "=mlx5_1:1", "UCX_NET_DEVICES": "mlx5_1:1", "MELLANOX_VISIBLE_DEVICES": "none",
		"NCCL_DEBUG": "the-image",
	} {
		if got := variables[name]; got != want {
			t.Errorf("%s is %q, wanted %q", name, got, want)
		}
	}
	if _, there := variables["LD_PRELOAD_NOT"]; there {
		t.Error("a variable that is not the job's was added")
	}
	if devices != "rdma_cm uverbs1" {
		t.Errorf("devices %q", devices)
	}
}

func TestAContainerWithADevOfItsOwnHasTheJobsDevices(t *testing.T) {
	for _, variable := range []string{"ENROOT_RESTRICT_DEV=y", "ENROOT_UNSHARE_IPC=y"} {
		if _, devices := container(t, append(slices.Clone(task), variable)...); devices != "rdma_cm uverbs1" {
			t.Errorf("with %s: devices %q", variable, devices)
		}
	}
}

func TestTheHookDoesNothingOutsideOfALease(t *testing.T) {
	variables, devices := container(t, "ENROOT_RESTRICT_DEV=y", "NCCL_IB_HCA=users", "GRESNET_VARIABLES=NCCL_IB_HCA")
	if len(variables) != 3 || variables["NCCL_IB_HCA"] != "the-image" || devices != "" {
		t.Errorf("variables %q, devices %q", variables, devices)
	}
}

// A user may set anything in the task; it must not become another variable, or
// run as a command.
func TestTheHookTakesNothingButNamesAndLines(t *testing.T) {
	file := filepath.Join(folder(t), "made")
	variables, _ := container(t, "GRESNET_JOB=4711", "GRESNET_MORE=a\nPATH=/tmp", "NCCL_X=b\nLD_PRELOAD=c",
		"GRESNET_VARIABLES=NCCL_X,NCCL_DEBUG[$(touch "+file+")],,NCCL_UNSET,a b")
	want := map[string]string{
		"NCCL_IB_HCA": "the-image", "NCCL_DEBUG": "the-image", "MELLANOX_VISIBLE_DEVICES": "all", "GRESNET_JOB": "4711",
		"GRESNET_VARIABLES": "NCCL_X,NCCL_DEBUG[$(touch " + file + ")],,NCCL_UNSET,a b",
	}
	for name, value := range variables {
		if want[name] != value {
			t.Errorf("%s is %q", name, value)
		}
	}
	if len(variables) != len(want) {
		t.Errorf("variables %q", variables)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a command in a variable's name was run")
	}
}
