package step

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/state"
	"gresnet/test/netnstest"
)

func TestOfMovesThatDoNotBeginTheErrorIsTheDevicesWhoseEarlierMoveHasNotEnded(t *testing.T) {
	job := netnstest.New(t)
	list := []*RDMA{{ID: node.ID{GUID: "A"}, Name: "mlx5_0"}, {ID: node.ID{GUID: "B"}, Name: "mlx5_1"}, {ID: node.ID{GUID: "C"}, Name: "mlx5_2"}}
	dir, locks := state.Lease(t.TempDir()), t.TempDir()
	if err := os.Symlink(job.Path, dir.Netns()); err != nil {
		t.Fatal(err)
	}
	for _, held := range list {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		root, err := netns.Current()
		if err != nil {
			t.Fatal(err)
		}
		w := &world.World{Given: world.Given{Root: root, Sys: fstest.MapFS{}, Dir: dir, Locks: locks, Budget: poll.Budget{Context: ctx}}}
		busy, err := state.LockHCA(t.Context(), locks, held.ID)
		if err != nil {
			t.Fatal(err)
		}
		if waits, of, err := StartMoves(w, list); of != held || waits != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s is on its way: %v of %+v, %d moves wait", held.Name, err, of, len(waits))
		}
		busy.Close()
		w.Close()
		cancel()
	}
}
