package step

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/node"
	"gresnet/lib/poll"
	"gresnet/lib/table"
	"gresnet/lib/world"
)

// test/model found it: CLAIM_IS_STRUCK_UNDER_NODE_LOCK.
func TestAClaimIsStruckWhenItIsFreedAndBeforeAnybodyMakesTheTableAnew(t *testing.T) {
	w := &world.World{Given: world.Given{Table: table.NewFile(t.TempDir()), CM: filepath.Join(t.TempDir(), "none"), Job: 1, Run: "0", Budget: poll.Budget{Context: t.Context()}}}
	err := w.Table.Update(t.Context(), func(now *table.Table) error {
		now.Claims = []table.Claim{{HCA: node.ID{GUID: "A"}, Job: 1, Run: "0"}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	struck := 0
	claim := &Claim{Freed: func() error {
		struck++
		if now, err := w.Table.Read(); err != nil || len(now.Claims) > 0 {
			t.Errorf("struck before it is freed: %v, %v", now.Claims, err)
		}
		fd, err := unix.Open(filepath.Join(w.Table.Dir, "node.lock"), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			t.Errorf("nobody has the node lock: %v", err)
		}
		return nil
	}}
	if err := claim.Undo(w); err != nil || struck != 1 {
		t.Errorf("struck %d times, %v", struck, err)
	}
}
