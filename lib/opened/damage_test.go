package lease

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gresnet/lib/event"
	"gresnet/lib/host"
	"gresnet/lib/journal"
	"gresnet/lib/node"
	"gresnet/lib/recovery"
	"gresnet/lib/world"
	"gresnet/test/leasetest"
)

// wholeLease is the journal of a lease of A, B and C.
func wholeLease() (all []recovery.Note) {
	for i, s := range leasetest.Steps() {
		all = append(all, recovery.Note{Step: s, Number: i + 1})
	}
	return all
}

func TestAnHCAIsNotFreedWhileTheJournalGivesItToTheLease(t *testing.T) {
	book, err := journal.Create(filepath.Join(t.TempDir(), "journal"), journal.Header{Job: 1, Run: "0"})
	if err != nil {
		t.Fatal(err)
	}
	l := &open{journal: book, node: On(&host.Host{Now: time.Now, Log: func(event.Event) {}}), world: &world.World{Given: world.Given{Job: 1}, Outcome: world.Outcome{Away: map[node.ID]string{leasetest.C: "it is away"}}}}
	all := wholeLease()
	for i := range all {
		if err := l.note(all[i].Step); err != nil {
			t.Fatal(err)
		}
	}
	book.Close() // from now on nothing can be written
	for _, s := range all {
		if s.HCA() == leasetest.A || s.HCA() == leasetest.C {
			l.markUndone(s)
		}
	}
	l.shorten(all[0])
	if failed := l.keepUnstruck(); len(failed) != 1 || !strings.Contains(l.world.Away[leasetest.A], "the journal still says that the job has it") {
		t.Errorf("A is not kept: %v, %q", failed, l.world.Away[leasetest.A])
	}
	if _, kept := l.world.Away[leasetest.B]; kept || l.world.Away[leasetest.C] != "it is away" {
		t.Errorf("kept besides: %v", l.world.Away)
	}
}
