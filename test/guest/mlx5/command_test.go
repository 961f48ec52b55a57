package mlx5

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// TestAnHCAWhoseFirmwareIsSlowOrRefusesToOpenItComesHome has the fault while the HCA moves in, and while it moves home.
// Where its interface cannot be opened, that is the node's fault, and the next run restores the node.
func TestAnHCAWhoseFirmwareIsSlowOrRefusesToOpenItComesHome(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.MLX5)
	h := begin(t)[0]
	before := remade(vm.Picture(t))
	for _, c := range []struct {
		fault, heal string
		exit        int
		says        string
	}{
		{"slow 0 200ms", "slow 0 0s", 0, ""},
		{"refuse 0 CREATE_SQ", "refuse 0", 2, "bring " + h.net + " up: input/output error"},
	} {
		during := func(program string) {
			order(t, c.fault)
			out, code := vm.ByHand(t, program, first)
			order(t, c.heal)
			if code != c.exit || !strings.Contains(out, c.says) {
				t.Errorf("%s: %s: exit %d: %s", c.fault, program, code, out)
			}
		}
		during("prolog")
		vm.Must(t, "epilog", first)
		settles(t, c.fault+" while it moved in", before)
		vm.Must(t, "prolog", first)
		during("epilog")
		settles(t, c.fault+" while it moved home", before)
	}
}
