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
