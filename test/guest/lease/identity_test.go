package lease

import (
	"testing"

	"gresnet/test/guest/vm"
)

func TestAnIndexMeansTheSameHCAAfterReloadingReorderingAndRenaming(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	vm.KeepTheirIndices(t, "guid")
}
