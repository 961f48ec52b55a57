package lease

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/test/leasetest"
)

// lookAt is a look at a node that has these HCAs, in the order of their PCI addresses.
func lookAt(n *Host, hcas ...node.ID) func(*table.Table) (gres.Mapping, error) {
	return func(t *table.Table) (gres.Mapping, error) {
		for _, id := range hcas {
			if !slices.ContainsFunc(t.HCAs, func(h node.HCA) bool { return h.ID == id }) {
				t.HCAs = append(t.HCAs, node.HCA{ID: id})
			}
		}
		return gres.Map(n.Config, t.HCAs)
	}
}

func numbers(m gres.Mapping) string {
	var ids []node.ID
	for _, h := range m.HCAs() {
		ids = append(ids, h.ID)
	}
	return leasetest.GUIDs(ids)
}

// A source says index 1; the driver of another HCA is ready before that is claimed.
func TestAnIndexThatASourceHasSeenMeansTheSameHCAWhenItIsClaimed(t *testing.T) {
	n := On(&host.Host{State: state.Dir(t.TempDir())})
	n.Config.Slurm.Gres = []string{"nic"}
	if m, err := n.pin(t.Context(), lookAt(n, leasetest.A, leasetest.C)); err != nil || numbers(m) != "a c" {
		t.Fatalf("a source is told %q, %v", numbers(m), err)
	}
	err := n.Table().Update(t.Context(), func(now *table.Table) error {
		m, err := lookAt(n, leasetest.A, leasetest.B, leasetest.C)(now)
		if numbers(m) != "a c b" {
			t.Errorf("a claim meets %q", numbers(m))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestASourceIsToldWhatAnotherPrologHasPinnedMeanwhile(t *testing.T) {
	n := On(&host.Host{State: state.Dir(t.TempDir())})
	n.Config.Slurm.Gres = []string{"nic"}
	looks := 0
	m, err := n.pin(t.Context(), func(now *table.Table) (gres.Mapping, error) {
		if looks++; looks == 1 {
			n.update(t, func(now *table.Table) { now.HCAs = []node.HCA{{ID: leasetest.A}, {ID: leasetest.C}} })
		}
		return lookAt(n, leasetest.A, leasetest.B, leasetest.C)(now)
	})
	if err != nil || numbers(m) != "a c b" {
		t.Errorf("a source is told %q, %v", numbers(m), err)
	}
}

// A look at all HCAs asks for every index, which is most of what a boot's first prolog asks.
func TestTheFirstPrologOfABootLooksForAllHCAsOnce(t *testing.T) {
	n := On(&host.Host{State: state.Dir(t.TempDir())})
	n.Config.Slurm.Gres = []string{"nic"}
	looks := 0
	m, err := n.pin(t.Context(), func(now *table.Table) (gres.Mapping, error) {
		if looks++; looks > 1 {
			t.Error("it looks again")
		}
		return lookAt(n, leasetest.A, leasetest.B)(now)
	})
	if err != nil || numbers(m) != "a b" {
		t.Errorf("a source is told %q, %v", numbers(m), err)
	}
	now, err := n.Table().Read()
	if err != nil || len(now.HCAs) != 2 {
		t.Errorf("the table has %v, %v", now.HCAs, err)
	}
}

func TestWhereNothingIsToBePinnedNobodyIsWaitedFor(t *testing.T) {
	n := On(&host.Host{State: state.Dir(t.TempDir())})
	n.Config.Slurm.Gres = []string{"nic"}
	lockFile := filepath.Join(string(n.State), "node.lock")
	if _, err := n.pin(t.Context(), lookAt(n)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(lockFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("on a node without HCAs the lock was taken: %v", err)
	}
	n.update(t, func(now *table.Table) { now.HCAs = []node.HCA{{ID: leasetest.A}} })
	if err := os.Remove(lockFile); err != nil {
		t.Fatal(err)
	}
	if _, err := n.pin(t.Context(), lookAt(n, leasetest.A)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(lockFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("with a table that has all the lock was taken: %v", err)
	}
}
