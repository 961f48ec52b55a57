package guest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// mapEach maps GPU n to HCA n.
func mapEach(t *testing.T, names []string) {
	t.Helper()
	text := "[slurm]\nsource = [\"gpu\"]\n"
	for i, name := range names {
		text += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\ngpus = [%d]\n", i, name, i)
	}
	writeConfig(t, text)
	t.Cleanup(func() { writeConfig(t, config) })
}

func TestPrologsAndEpilogsAtOnceGetInNobodysWay(t *testing.T) {
	slurm(t)
	names := hcas(t)
	mapEach(t, names)
	before := picture(t)
	for round := range 3 {
		for _, program := range []string{"prolog", "epilog"} {
			var wg sync.WaitGroup
			for i := range names {
				wg.Go(func() {
					out, code := byHand(t, program, fmt.Sprintf("SLURM_JOB_ID=%d SLURM_JOB_GPUS=%d", 900100+i, i))
					if code != 0 || out != "" {
						t.Errorf("round %d: %s of HCA %d: exit %d: %s", round, program, i, code, out)
					}
				})
			}
			wg.Wait()
			if claims := strings.Fields(run(t, "jq -r '.claims[].name' /run/gresnet/node.json")); program == "prolog" && len(claims) != len(names) {
				t.Errorf("round %d: claims %q, wanted one of each of %q", round, claims, names)
			}
		}
		if same(t, before); t.Failed() {
			return
		}
	}
}
