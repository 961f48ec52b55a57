package state_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gresnet/lib/state"
	"gresnet/test/await"
)

func TestOneHolderOfAJobsLockAtATimeThoughEachRemovesIt(t *testing.T) {
	dir := t.TempDir()
	var inside, most int
	var mu sync.Mutex
	enter := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		inside += n
		most = max(most, inside)
	}
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for range 20 {
				f, err := state.LockJob(t.Context(), dir, 4711)
				if err != nil {
					t.Error(err)
					return
				}
				enter(1)
				enter(-1)
				if err := f.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most != 1 {
		t.Errorf("%d holders at once", most)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestALockThatIsHeldIsWaitedForUntilTheContextEnds(t *testing.T) {
	dir := t.TempDir()
	held, err := state.LockJob(t.Context(), dir, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = state.LockJob(ctx, dir, 7)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "lock job 7") {
		t.Errorf("second holder: %v", err)
	}
}

// It waits in the kernel, which may give it the lock after it gave up.
func TestWhoWaitedInVainDoesNotKeepTheLockFromTheNext(t *testing.T) {
	dir := t.TempDir()
	for range 50 {
		held, err := state.LockJob(t.Context(), dir, 7)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := state.LockJob(ctx, dir, 7); err == nil {
			t.Fatal("two have the lock")
		}
		cancel()
		held.Close()
		ctx, cancel = context.WithTimeout(t.Context(), await.Most(t))
		next, err := state.LockJob(ctx, dir, 7)
		cancel()
		if err != nil {
			t.Fatalf("the next one: %v", err)
		}
		next.Close()
	}
}
