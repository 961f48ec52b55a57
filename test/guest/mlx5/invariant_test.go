package mlx5

import (
	"testing"

	"gresnet/test/guest/vm"
)

// TestHCAsOfTheKernelsOwnDriverComeBackWhereverAJobIsKilled kills a job that has one of RoCE, and for the long tests one
// that has all.
func TestHCAsOfTheKernelsOwnDriverComeBackWhereverAJobIsKilled(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke, vm.MLX5)
	begin(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", all)
	vm.Must(t, "epilog", all)
	vm.Same(t, before)
	job := []string{first, all}[vm.Rounds(0, 1)]
	kills := vm.KillAnywhere(t, job, func() bool { vm.Same(t, before); return !t.Failed() })
	t.Logf("%d kills", kills)
}
