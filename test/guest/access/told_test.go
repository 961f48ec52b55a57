package access

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const exportAll = `
[environment]
export = ["NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_SOCKET_IFNAME", "UCX_NET_DEVICES", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "MELLANOX_VISIBLE_DEVICES"]
`

// told prints what a task was told, and what it finds at the GID index.
const told = `
env | grep -E '^(GRESNET|NCCL|UCX|GLOO|TP|MELLANOX)_'
for h in ${GRESNET_HCAS//,/ }; do
	d=/sys/class/infiniband/$h/ports/1
	[ "$(cat $d/link_layer)" = Ethernet ] || continue
	n=$NCCL_IB_GID_INDEX
	echo "gid $(cat $d/gid_attrs/types/$n) $(cat $d/gid_attrs/ndevs/$n) $(cat $d/gids/$n)"
done
`

// variables returns the lines NAME=VALUE of an output.
func variables(out string) map[string]string {
	m := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok {
			m[name] = value
		}
	}
	return m
}

func TestAJobIsToldOfItsHCAs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.WithConfig(t, exportAll)
	before := vm.Picture(t)
	all := vm.HCAs(t)
	out := vm.As(t, "alice", fmt.Sprintf("srun --gres=nic:%d bash -c %s", len(all), vm.Quote(told)))
	got := variables(out)
	ports := strings.Join(all, ":1,") + ":1"
	names := strings.Split(got["GRESNET_INTERFACES"], ",")
	for name, want := range map[string]string{
		"GRESNET_HCAS": strings.Join(all, ","), "GRESNET_PORTS": ports, "GRESNET_MODE": vm.Mode(t),
		"GRESNET_NUMA": strings.TrimSuffix(strings.Repeat("-1,", len(all)), ","), "GRESNET_GPUS": "",
		"NCCL_IB_HCA": "=" + ports, "UCX_NET_DEVICES": ports,
		"NCCL_SOCKET_IFNAME": "=" + got["GRESNET_INTERFACES"], "GLOO_SOCKET_IFNAME": names[0], "TP_SOCKET_IFNAME": names[0],
		"MELLANOX_VISIBLE_DEVICES": "none",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if len(names) != len(all) {
		t.Errorf("interfaces: %q, wanted %d", names, len(all))
	}
	gids := 0
	for _, line := range strings.Split(out, "\n") {
		if strings.HasPrefix(line, "gid ") {
			gids++
			if f := strings.Fields(line); len(f) != 5 || f[1]+f[2] != "RoCEv2" || !strings.HasPrefix(f[3], "roce") || !strings.Contains(f[4], ":ffff:0a") {
				t.Errorf("at index %q there is %q, wanted RoCE v2 over IPv4 of the port's own interface", got["NCCL_IB_GID_INDEX"], line)
			}
		}
	}
	if gids != 2 {
		t.Errorf("%d RoCE ports, wanted 2:\n%s", gids, out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}

func TestWhatAUserHasSetStaysAndWhatIsOursDoesNot(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.WithConfig(t, exportAll)
	out := vm.As(t, "alice", "export NCCL_IB_HCA=mine NCCL_IB_GID_INDEX= GRESNET_HCAS=mine GRESNET_PORTS=mine MELLANOX_VISIBLE_DEVICES=all; srun --gres=nic:1 env")
	got := variables(out)
	if got["NCCL_IB_HCA"] != "mine" || got["NCCL_IB_GID_INDEX"] != "" {
		t.Errorf("the user's own are lost: NCCL_IB_HCA=%s NCCL_IB_GID_INDEX=%s", got["NCCL_IB_HCA"], got["NCCL_IB_GID_INDEX"])
	}
	if got["GRESNET_HCAS"] == "mine" || got["GRESNET_PORTS"] != got["GRESNET_HCAS"]+":1" || got["MELLANOX_VISIBLE_DEVICES"] != "none" {
		t.Errorf("what must be true is not: GRESNET_HCAS=%s GRESNET_PORTS=%s MELLANOX_VISIBLE_DEVICES=%s",
			got["GRESNET_HCAS"], got["GRESNET_PORTS"], got["MELLANOX_VISIBLE_DEVICES"])
	}
}

func TestEnrootsMellanoxHookIsSwitchedOffForAJob(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	vm.Slurm(t)
	vm.Run(t, "install -D -m 755 /dev/null /etc/enroot/hooks.d/99-mellanox.sh")
	defer vm.Run(t, "rm -r /etc/enroot")
	out := vm.As(t, "alice", "MELLANOX_VISIBLE_DEVICES=all srun --gres=nic:1 env")
	if got := variables(out); got["MELLANOX_VISIBLE_DEVICES"] != "none" || got["GRESNET_VARIABLES"] != "MELLANOX_VISIBLE_DEVICES" {
		t.Errorf("a container's hook would be on:\n%s", out)
	}
}

func TestNothingIsExportedThatTheSiteDoesNotName(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	out := vm.As(t, "alice", "srun --gres=nic:1 env")
	for name := range variables(out) {
		for _, prefix := range []string{"NCCL_", "UCX_", "GLOO_", "TP_", "MELLANOX_"} {
			if strings.HasPrefix(name, prefix) {
				t.Errorf("%s is exported", name)
			}
		}
	}
}

func TestRDMACMAndManagementDevicesAreGivenOnlyIfTheSiteSaysSo(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	const look = `cd /dev/infiniband; stat -c '%n %a %U' *; for d in umad*; do [ ! -e $d ] || { exec 3<>$d; echo opened; }; done`
	const storage = "\n[[policy]]\npartition = \"%s\"\nrdma_cm = true\n"
	for _, c := range []struct{ more, want string }{
		{"", "uverbs"},
		{"\n[access]\nrdma_cm = \"auto\"\n", "uverbs"},
		{"\n[access]\nrdma_cm = true\n", "rdma_cm uverbs"},
		{fmt.Sprintf(storage, "all"), "rdma_cm uverbs"},
		{fmt.Sprintf(storage, "storage"), "uverbs"},
		{"\n[access]\numad = true\n", "opened umad uverbs"},
		{"\n[access]\nissm = true\n", "issm uverbs"},
		{"\n[access]\numad = true\nissm = true\nrdma_cm = true\n", "issm opened rdma_cm umad uverbs"},
	} {
		vm.WriteConfig(t, vm.Config+c.more)
		before := vm.Picture(t)
		out := vm.As(t, "alice", "srun --gres=nic:1 bash -ec "+vm.Quote(look)) // nic 0 is InfiniBand
		var kinds []string
		for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
			f := strings.Fields(line)
			kinds = append(kinds, strings.TrimRight(f[0], "0123456789"))
			if strings.HasPrefix(f[0], "umad") || strings.HasPrefix(f[0], "issm") || strings.HasPrefix(f[0], "uverbs") {
				if f[1] != "600" || f[2] != "alice" {
					t.Errorf("%q: %s, wanted 600 alice", c.more, line)
				}
			}
		}
		if got := strings.Fields(vm.Run(t, "printf '%s\n' "+strings.Join(kinds, " ")+" | sort -u")); strings.Join(got, " ") != c.want {
			t.Errorf("%q: the job has %q, want %q", c.more, got, c.want)
		}
		vm.Eventually(t, "the epilog has run", vm.NoLease)
		vm.Same(t, before)
	}
	vm.WriteConfig(t, vm.Config)
}

// enableRDMA turns the controller on, as docs/configuration.md says.
const enableRDMA = `
for d in /sys/fs/cgroup /sys/fs/cgroup/system.slice /sys/fs/cgroup/system.slice/*slurmstepd.scope; do
	echo +rdma >$d/cgroup.subtree_control
done`

func TestAJobIsLimitedInItsCgroup(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.WithConfig(t, "\n[limits]\nhca_handle = 1\nhca_object = 1000\n")
	before := vm.Picture(t)
	probe := vm.ProbeProgram(t)
	const warning = "warning: the limits of gresnet.toml do not hold"
	once := "srun --gres=nic:1 env GRESNET_PROBE=/dev/infiniband " + probe
	if out := vm.As(t, "alice", once); strings.Count(out, ": context") != 1 {
		t.Errorf("without the controller: %s", out)
	}
	if out := vm.Run(t, "grep -h gresnet /var/log/slurmd.log"); !strings.Contains(out, warning) {
		t.Errorf("slurmd's log does not say that the controller is off:\n%s", out)
	}
	vm.Run(t, enableRDMA)
	vm.Run(t, ": >/var/log/slurmd.log")
	job := vm.Submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
	vm.Eventually(t, "the step runs", func() bool { return vm.HasStep(job) })
	claimed := strings.TrimSpace(vm.Jq(t, ".claims[].name"))
	limits := vm.Run(t, "cat "+jobsCgroup(t, "sleep 1000")+"/rdma.max")
	for _, line := range strings.Split(strings.TrimSpace(limits), "\n") {
		name, got, _ := strings.Cut(line, " ")
		want := "hca_handle=max hca_object=max"
		if name == claimed {
			want = "hca_handle=1 hca_object=1000"
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("%s has limits %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(limits, claimed+" ") {
		t.Errorf("rdma.max has nothing of %s:\n%s", claimed, limits)
	}
	vm.Cancel(t, job)
	if out := vm.As(t, "alice", once); strings.Count(out, ": context") != 1 {
		t.Errorf("one context is not to be had: %s", out)
	}
	out, err := vm.TryAs("alice", "srun --gres=nic:1 env GRESNET_PROBE=/dev/infiniband:/dev/infiniband "+probe)
	if err == nil || strings.Count(out, ": context") != 1 || !strings.Contains(out, "temporarily unavailable") {
		t.Errorf("two contexts with a limit of one: %v: %s", err, out)
	}
	if log, _ := os.ReadFile("/var/log/slurmd.log"); strings.Contains(string(log), warning) {
		t.Errorf("slurmd's log warns though the controller is on:\n%s", log)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}
