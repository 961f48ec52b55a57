package opened

import (
	"os"
	"testing"
	"time"

	"gresnet/lib/link"
	"gresnet/lib/state/table"
	"gresnet/lib/words/node"
	"gresnet/test/leasetest"
)

// A prolog has claimed B and C and noted none of their interfaces. An interface of A, which is on the node, is not one
// of theirs; of an interface that is on no HCA of the node nobody knows.
func TestAPrologThatHasNotedNothingHasTheInterfacesOfWhatItClaimedAlone(t *testing.T) {
	h := emptyHost(t)
	leasetest.Write(t, h.State, 2, time.Hour, nil)
	claims := &table.Table{Claims: []table.Claim{{HCA: leasetest.B, Job: 2}, {HCA: leasetest.C, Job: 2}}}
	for here, want := range map[node.ID]node.ID{leasetest.A: {}, leasetest.B: leasetest.B, leasetest.C: leasetest.C, {}: leasetest.B} {
		hca, leased, err := leases(h, claims, 2, link.ID{Address: "x"}, func() (node.ID, error) { return here, nil })
		if err != nil || hca != want || leased != (want != node.ID{}) {
			t.Errorf("an interface of %q: %q, %t, %v", here.GUID, hca.GUID, leased, err)
		}
	}
	if err := os.WriteFile(h.State.Lease(2).Env(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if hca, leased, err := leases(h, claims, 2, link.ID{Address: "x"}, nil); leased || err != nil {
		t.Errorf("a job that has its lease has an interface that it never noted, of %q: %v", hca.GUID, err)
	}
}
