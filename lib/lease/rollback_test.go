package lease

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/step"
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
