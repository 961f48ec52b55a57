package lease

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/lib/state/table"
	"gresnet/test/leasetest"
)

func TestAReleaseDoesNotTouchWhatAnotherJobHasClaimedMeanwhile(t *testing.T) {
	sick := table.Claim{HCA: leasetest.A, Name: "mlx5_0", Job: 7, Run: "0", Quarantined: "it hangs"}
	for name, now := range map[string]table.Claim{
		"the next job's":               {HCA: leasetest.A, Name: "mlx5_0", Job: nextJob, Run: "0"},
		"the next job's, and sick":     {HCA: leasetest.A, Name: "mlx5_0", Job: nextJob, Run: "0", Quarantined: "it hangs again"},
		"the same job's, requeued":     {HCA: leasetest.A, Name: "mlx5_0", Job: 7, Run: "1"},
		"requeued, and sick":           {HCA: leasetest.A, Name: "mlx5_0", Job: 7, Run: "1", Quarantined: "it hangs again"},
		"the same run's, which has it": {HCA: leasetest.A, Name: "mlx5_0", Job: 7, Run: "0"},
		"nobody's, but another HCA is": {HCA: leasetest.B, Name: "mlx5_1", Job: 7, Run: "0", Quarantined: "it hangs"},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := heldNode(t, byIndex)
			n.update(t, func(t *table.Table) { t.Claims = []table.Claim{now} })
			before, _ := n.Table().Read()
			err := n.free(t.Context(), sick)
			if err == nil || !strings.HasPrefix(err.Error(), "release mlx5_0: it was freed meanwhile") {
				t.Errorf("error %v", err)
			}
			// Nor if that comes to pass after the look.
			if err := n.freeReturned(t.Context(), sameQuarantine(sick)); err != nil {
				t.Errorf("free: %v", err)
			}
			if after, _ := n.Table().Read(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the table was %+v and is %+v", before, after)
			}
		})
	}
	worse := sick
	worse.Quarantined = "its port has no link"
	if is := sameQuarantine(sick); !is(sick) || !is(worse) {
		t.Error("a quarantine is not taken for itself")
	}
}
