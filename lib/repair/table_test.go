package repair

import (
	"os"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/event"
	"gresnet/lib/host"
	"gresnet/lib/node"
	"gresnet/lib/state"
	"gresnet/lib/table"
	"gresnet/test/leasetest"
)

func TestOfTwoLeasesThatClaimAnHCATheYoungerHasIt(t *testing.T) {
	h := &host.Host{State: state.Dir(t.TempDir()), Sys: fstest.MapFS{}, Log: func(event.Event) {}, Now: time.Now}
	if err := h.State.Make(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ older, younger uint32 }{{1, 2}, {2, 1}, {9, 10}} {
		for _, id := range []uint32{c.older, c.younger} {
			defer os.RemoveAll(string(h.State.Lease(id)))
		}
		leasetest.Write(t, h.State, c.older, time.Minute, []node.ID{leasetest.A, leasetest.B}, leasetest.A)
		leasetest.Write(t, h.State, c.younger, time.Hour, []node.ID{leasetest.A})
		books, err := books(h)
		if err != nil {
			t.Fatal(err)
		}
		var now table.Table
		for _, b := range books {
			if b.Job == c.older || b.Job == c.younger {
				b.Claim(&now)
			}
		}
		a, _ := now.Holder(leasetest.A)
		b, _ := now.Holder(leasetest.B)
		if a.Job != c.younger || b.Job != c.older {
			t.Errorf("A is job %d's and B is job %d's, wanted %d and %d", a.Job, b.Job, c.younger, c.older)
		}
	}
}
