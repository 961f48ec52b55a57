package invariant

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"gresnet/test/guest/vm"
)

// mapEach maps GPU n to HCA n.
func mapEach(t *testing.T, names []string) {
	t.Helper()
	text := "[slurm]\nsource = [\"gpu\"]\n"
	for i, name := range names {
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\ngpus = [%d]\n", i, name, i)
	}
	vm.WriteConfig(t, text)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
}

func TestPrologsAndEpilogsAtOnceGetInNobodysWay(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	names := vm.HCAs(t)
	mapEach(t, names)
	before := vm.Picture(t)
	for round := range 3 {
		for _, program := range []string{"prolog", "epilog"} {
			var wg sync.WaitGroup
			for i := range names {
				wg.Go(func() {
					out, code := vm.ByHand(t, program, fmt.Sprintf("SLURM_JOB_ID=%d SLURM_JOB_GPUS=%d", 900100+i, i))
					if code != 0 || out != "" {
						t.Errorf("round %d: %s of HCA %d: exit %d: %s", round, program, i, code, out)
					}
				})
			}
			wg.Wait()
			if claims := strings.Fields(vm.Jq(t, ".claims[].name")); program == "prolog" && len(claims) != len(names) {
				t.Errorf("round %d: claims %q, wanted one of each of %q", round, claims, names)
			}
		}
		if vm.Same(t, before); t.Failed() {
			return
		}
	}
}
