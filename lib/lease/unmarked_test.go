package lease

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state/journal"
	"gresnet/test/leasetest"
)

func TestAnHCAIsNotFreedWhileTheJournalGivesItToTheLease(t *testing.T) {
	undoLog, err := journal.Create(filepath.Join(t.TempDir(), "journal"), journal.Header{Job: 1, Run: "0"})
	if err != nil {
		t.Fatal(err)
	}
	l := &Lease{Journal: undoLog, Host: &host.Host{Now: time.Now, Log: func(event.Event) {}}, World: &world.World{Given: world.Given{Job: 1}, Outcome: world.Outcome{Away: map[node.ID]string{leasetest.C: "it is away"}}}}
	all := wholeLease()
	for i := range all {
		if err := l.AddEntry(all[i].Step); err != nil {
			t.Fatal(err)
		}
	}
	undoLog.Close() // from now on nothing can be written
	for _, s := range all {
		if s.HCA() == leasetest.A || s.HCA() == leasetest.C {
			l.markUndone(s)
		}
	}
	l.shorten(all[0])
	if failed := l.quarantineUnmarked(); len(failed) != 1 || !strings.Contains(l.World.Away[leasetest.A], "the journal still says that the job has it") {
		t.Errorf("A is not kept: %v, %q", failed, l.World.Away[leasetest.A])
	}
	if _, kept := l.World.Away[leasetest.B]; kept || l.World.Away[leasetest.C] != "it is away" {
		t.Errorf("kept besides: %v", l.World.Away)
	}
}
