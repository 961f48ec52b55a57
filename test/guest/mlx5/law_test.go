package mlx5

import (
	"testing"

	"gresnet/test/guest/vm"
)

// TestHCAsOfTheKernelsOwnDriverComeBackWhereverAJobIsKilled takes an HCA of each kind, and for the long tests all.
func TestHCAsOfTheKernelsOwnDriverComeBackWhereverAJobIsKilled(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke, vm.MLX5)
	begin(t)
	job := []string{each, all}[vm.Rounds(0, 1)]
	vm.Must(t, "prolog", job)
	vm.Must(t, "epilog", job)
	before := vm.Picture(t)
	kills := vm.KillAnywhere(t, job, func() bool { vm.Same(t, before); return !t.Failed() })
	t.Logf("%d kills", kills)
}
