package slurm

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// failing has prologs fail for a fault of the node.
const failing = "[slurm]\nsource = [\"program\"]\nprogram = \"/usr/libexec/nowhere\"\n"

// drainedFor starts a job whose prolog fails, and returns why the node is drained.
func drainedFor(t *testing.T, config string) string {
	t.Helper()
	vm.WithSource(t, config)
	t.Cleanup(func() { vm.Slurm(t) })
	_, _ = vm.TryAs("alice", "timeout 120 srun -t 1 true")
	vm.Eventually(t, "the node is drained", func() bool { return nodeState(t) == "drained" })
	return strings.TrimSpace(vm.Run(t, "sinfo -h -R -o %E"))
}

func TestSinfoSaysWhyAPrologFailedIfTheSiteWantsThat(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long)
	vm.Slurm(t)
	t.Run("wanted", func(t *testing.T) {
		if why := drainedFor(t, failing+"drain_reason = true\n"); !strings.HasPrefix(why, "gresnet: ") || !strings.Contains(why, "/usr/libexec/nowhere") {
			t.Errorf("the node is drained for %q", why)
		}
	})
	t.Run("not wanted", func(t *testing.T) {
		if why := drainedFor(t, failing); why != "Prolog error" {
			t.Errorf("the node is drained for %q", why)
		}
	})
}

// Tasks of a job with a lease would run outside of it, if the plugin failed or were not there.
func TestAJobWithHCAsDoesNotStartWhereSlurmDoesNotRequireThePlugin(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	before := vm.Picture(t)
	t.Cleanup(func() { vm.RestartSlurm(t) })
	for _, edit := range []string{"s/^required/optional/", "d"} {
		vm.Run(t, "sed -i '"+edit+"' /etc/slurm/plugstack.conf")
		if out, err := vm.TryAs("alice", "srun echo has run"); err != nil || !strings.Contains(out, "has run") {
			t.Errorf("%s: a job without HCAs: %v\n%s", edit, err, out)
		}
		out, _ := vm.TryAs("alice", "timeout 120 srun -t 1 --gres=nic:1 echo has run")
		if strings.Contains(out, "has run") {
			t.Errorf("%s: a job with HCAs runs:\n%s", edit, out)
		}
		vm.Eventually(t, "the node is drained", func() bool { return nodeState(t) == "drained" })
		if log := vm.Run(t, "cat /var/log/slurmd.log"); !strings.Contains(log, "find gresnet's plugin: ") {
			t.Errorf("%s: slurmd's log does not say why", edit)
		}
		vm.Run(t, "scancel -u alice; scontrol update nodename=node1 state=resume")
		inService(t)
		vm.Same(t, before)
	}
}
