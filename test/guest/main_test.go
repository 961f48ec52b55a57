// Package guest tests gresnet as it is used: on an unmodified kernel with RDMA
// devices, under a real Slurm. It is compiled on the host and runs as root in
// the test VM, see test/vm; anywhere else every test is skipped.
package guest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/test/netnstest"
)

func TestMain(m *testing.M) {
	if what := os.Getenv("GRESNET_PROBE"); what != "" {
		os.Exit(probe(what))
	}
	if os.Getenv("GRESNET_PICTURE") != "" {
		os.Exit(printPicture())
	}
	os.Exit(m.Run())
}

// repo is the top folder of the work tree, which the VM has at the host's path.
func repo() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// needVM skips a test outside of the VM.
func needVM(t *testing.T) {
	t.Helper()
	if os.Getenv("GRESNET_VM") == "" {
		netnstest.Skip(t, "needs the test VM: run it with `make test`")
	}
}

// run runs a shell command on the node and returns what it prints to stdout.
func run(t *testing.T, command string) string {
	t.Helper()
	out, err := try(command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// try is run for a command that may fail: it returns both outputs together then.
func try(command string) (string, error) {
	var out, problems bytes.Buffer
	cmd := exec.Command("bash", "-ec", "set -o pipefail\n"+command)
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.Dir = "/"
	if err := cmd.Run(); err != nil {
		return out.String() + problems.String(), err
	}
	return out.String(), nil
}

// as runs a shell command as an ordinary user with a login's environment.
func as(t *testing.T, user, command string) string {
	t.Helper()
	out, err := tryAs(user, command)
	if err != nil {
		t.Fatalf("as %s: %s: %v\n%s", user, command, err, out)
	}
	return out
}

func tryAs(user, command string) (string, error) {
	return try("cd /tmp; exec setpriv --reuid " + user + " --regid " + user + " --init-groups env HOME=/tmp USER=" + user + " bash -ec " + quote(command))
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after two minutes still not: %s\n%s", what, slurmState())
		}
	}
}

// slurmState is what a person would look at first.
func slurmState() string {
	out, err := try("squeue -a; sinfo -R; scontrol show node | grep -E 'State|Reason'; grep -h 'gresnet-' /var/log/slurmd.log | tail -n 20; tail -n 30 /var/log/slurmd.log")
	return fmt.Sprintln(out, err)
}

// mode is the node's RDMA netns mode, as iproute2 says it.
func mode(t *testing.T) string {
	t.Helper()
	if strings.Contains(run(t, "rdma system"), "exclusive") {
		return "exclusive"
	}
	return "shared"
}

// maxRSS runs a program as slurmd would and returns its peak memory in KiB.
func maxRSS(t *testing.T, program, job string) int64 {
	t.Helper()
	cmd := exec.Command(repo() + "/bin/gresnet-" + program)
	cmd.Env = strings.Fields(strings.TrimPrefix(slurmdEnv, "env -i ") + job)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}
