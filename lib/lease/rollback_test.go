package lease

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
	"gresnet/test/leasetest"
	"gresnet/test/netnstest"
)

func TestWhatAnotherLeaseHasByNowIsNotTakenFromIt(t *testing.T) {
	h := emptyHost(t)
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
		l, err := open(t.Context(), h, 7)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if damaged {
			l.Journal.Entries[1].Kind = "of a later version"
		}
		entries, damage := l.left()
		if (damage != nil) != damaged {
			t.Fatalf("damage %v", damage)
		}
		for _, s := range entries {
			if s.HCA() == leasetest.A {
				t.Errorf("damaged %v: it would undo %s %s, which is job %d's", damaged, s.Kind(), s.Object(), holder)
			}
		}
		if !slices.ContainsFunc(entries, func(s Entry) bool { return s.HCA() == leasetest.B }) {
			t.Errorf("damaged %v: it would leave its own HCA away", damaged)
		}
	}
}

// opens returns the lease of job 7, which claims A, on a node of its own.
func opens(t *testing.T) *Lease {
	t.Helper()
	h := emptyHost(t)
	leasetest.Write(t, h.State, 7, time.Hour, []node.ID{leasetest.A})
	err := h.Table().Update(t.Context(), func(now *table.Table) error {
		now.Claims = []table.Claim{{HCA: leasetest.A, Job: 7, Run: "0"}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := open(t.Context(), h, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	l.startOver()
	return l
}

func TestWhatTheNodeLostIsQuarantinedAlsoWhereTheJournalIsDamaged(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		l := opens(t)
		l.World.Gone[world.Piece{HCA: leasetest.A}] = true
		claim := Entry{Step: &step.Claim{Claims: []table.Claim{{HCA: leasetest.A}}}}
		var broken *damage
		if damaged {
			broken = &damage{why: []string{"a line does not read"}}
		}
		l.undoAll([]Entry{claim}, broken)
		if now, err := l.World.Table.Read(); err != nil || len(now.Claims) != 1 || now.Claims[0].Quarantined == "" {
			t.Errorf("damaged %v: claims %+v, %v", damaged, now.Claims, err)
		}
	}
}

// watched is a step that looks at a device node of the lease while it is undone.
type watched struct {
	*step.Access
	node string
	had  fs.FileMode
}

func (s *watched) Undo(*world.World) error {
	info, err := os.Stat(s.node)
	if err == nil {
		s.had = info.Mode()
	}
	return errors.Join(err, errors.New("it does not come back"))
}

// Whoever has such a node open as a path (O_PATH) opens the HCA by it when that is back.
func TestTheDeviceNodesOfALeaseAreRestrictedBeforeAnHCAIsReturned(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make a device node")
	}
	l := opens(t)
	s := &watched{Access: &step.Access{ID: leasetest.A}, node: filepath.Join(l.World.Dir.Devices(), "uverbs0")}
	if err := errors.Join(os.MkdirAll(l.World.Dir.Devices(), 0o755), unix.Mknod(s.node, unix.S_IFCHR, int(unix.Mkdev(1, 3))), os.Chmod(s.node, 0o666)); err != nil {
		t.Fatal(err)
	}
	if failed := l.undoAll([]Entry{{Step: s}}, nil); len(failed) == 0 || s.had.Perm() != 0o600 {
		t.Errorf("the node has %s, %v", s.had, failed)
	}
}

func TestMovesAreUndoneAsTheyWereDone(t *testing.T) {
	const want = "overlay, rdma A, link ibA, rdma B, rdma C, link roceB, " +
		"settings ibA, settings roceB, access A, access B, access C, devices, namespace, claim"
	entries := wholeLease()
	ib := slices.IndexFunc(entries, func(s Entry) bool { return s.Kind() == "link" && s.Object() == "ibA" })
	a := slices.IndexFunc(entries, func(s Entry) bool { return s.Kind() == "rdma" && s.Object() == "A" })
	moved := entries[ib]
	entries = slices.Insert(slices.Delete(entries, ib, ib+1), a+1, moved) // as with IPoIB
	sortForUndo(entries)
	var got []string
	for _, s := range entries {
		got = append(got, strings.TrimSpace(s.Kind()+" "+s.Object()))
	}
	if got := strings.Join(got, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

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
