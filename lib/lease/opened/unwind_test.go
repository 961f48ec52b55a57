package opened

import (
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/recovery"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/lib/words/node"
	"gresnet/test/leasetest"
)

func TestWhatAnotherLeaseHasByNowIsNotTakenFromIt(t *testing.T) {
	h := &host.Host{State: state.Dir(t.TempDir()), Sys: fstest.MapFS{}, Log: func(event.Event) {}, Now: time.Now}
	if err := h.State.Make(); err != nil {
		t.Fatal(err)
	}
	const holder = 1
	leasetest.Write(t, h.State, 7, time.Hour, []node.ID{leasetest.A, leasetest.B})
	err := h.Table().Update(t.Context(), func(now *table.Table) error {
		now.Claims = []table.Claim{
			{HCA: leasetest.A, Name: "mlx5_0", Job: holder, Run: "0"},
			{HCA: leasetest.B, Name: "mlx5_1", Job: 7, Run: "0"},
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range []bool{false, true} {
		l, err := Open(t.Context(), h, 7)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if damaged {
			l.Journal.Notes[1].Kind = "of a later version"
		}
		notes, damage := l.left()
		if (damage != nil) != damaged {
			t.Fatalf("damage %v", damage)
		}
		for _, s := range notes {
			if s.HCA() == leasetest.A {
				t.Errorf("damaged %v: it would undo %s %s, which is job %d's", damaged, s.Kind(), s.Object(), holder)
			}
		}
		if !slices.ContainsFunc(notes, func(s recovery.Note) bool { return s.HCA() == leasetest.B }) {
			t.Errorf("damaged %v: it would leave its own HCA away", damaged)
		}
	}
}
