package lock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gresnet/lib/lock"
	"gresnet/lib/node"
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
				f, err := lock.Job(t.Context(), dir, 4711)
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
	held, err := lock.Job(t.Context(), dir, 7)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = lock.Job(ctx, dir, 7)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "lock job 7") {
		t.Errorf("second holder: %v", err)
	}
}

// It waits in the kernel, which may give it the lock after it gave up.
func TestWhoWaitedInVainDoesNotKeepTheLockFromTheNext(t *testing.T) {
	dir := t.TempDir()
	for range 50 {
		held, err := lock.Job(t.Context(), dir, 7)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := lock.Job(ctx, dir, 7); err == nil {
			t.Fatal("two have the lock")
		}
		cancel()
		held.Close()
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		next, err := lock.Job(ctx, dir, 7)
		cancel()
		if err != nil {
			t.Fatalf("the next one: %v", err)
		}
		next.Close()
	}
}

func TestATableWithoutClaimsHasAnEmptyListOfThem(t *testing.T) {
	n := lock.TableFile{Dir: t.TempDir()}
	must(t, n.Update(t.Context(), func(t *lock.Table) error { t.HCAs = []node.HCA{{ID: node.ID{GUID: "a"}}}; return nil }))
	text, err := os.ReadFile(filepath.Join(n.Dir, "node.json"))
	if err != nil || !strings.Contains(string(text), `"claims": []`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestClaimsAreWrittenReadAndReleasedByRun(t *testing.T) {
	n := lock.TableFile{Dir: t.TempDir()}
	a, b := node.ID{GUID: "a"}, node.ID{GUID: "b"}
	must(t, n.Update(t.Context(), func(t *lock.Table) error {
		t.Claims = []lock.Claim{{HCA: a, Job: 1, Run: "0"}, {HCA: b, Job: 1, Run: "0"}, {HCA: node.ID{GUID: "c"}, Job: 1, Run: "1"}}
		return nil
	}))
	must(t, n.Update(t.Context(), func(t *lock.Table) error {
		t.Release(1, "0", map[node.ID]string{b: "gone"})
		return nil
	}))
	table, err := n.Read()
	must(t, err)
	if len(table.Claims) != 2 || table.Claims[0].HCA != b || table.Claims[0].Quarantined != "gone" || table.Claims[1].Run != "1" {
		t.Errorf("claims %+v", table.Claims)
	}
	if _, held := table.Holder(a); held {
		t.Error("a released HCA has a holder")
	}
	// The next unwinding brought it home.
	must(t, n.Update(t.Context(), func(t *lock.Table) error { t.Release(1, "0", nil); return nil }))
	if table, _ = n.Read(); len(table.Claims) != 1 {
		t.Errorf("claims %+v", table.Claims)
	}
}

func TestWhoReadsAgainSeesWhatOthersHaveWrittenAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	n, other := lock.NewTableFile(dir), lock.TableFile{Dir: dir}
	claim := func(job uint32) func(*lock.Table) error {
		return func(t *lock.Table) error {
			t.Claims = append(t.Claims, lock.Claim{HCA: node.ID{GUID: fmt.Sprint(job)}, Job: job})
			return nil
		}
	}
	for job := range uint32(3) {
		must(t, other.Update(t.Context(), claim(job)))
		for range 2 {
			table, err := n.Read()
			must(t, err)
			if len(table.Claims) != int(job)+1 || table.Claims[job].Job != job || table.Claims[0].Job != 0 {
				t.Errorf("claims %+v", table.Claims)
			}
			table.Claims[0].Job = 99 // the reader's own affair
		}
	}
	must(t, n.Update(t.Context(), claim(3)))
	if table, err := other.Read(); err != nil || len(table.Claims) != 4 || table.Claims[0].Job != 0 {
		t.Errorf("claims %+v, %v", table.Claims, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "node.json"), []byte("{}\n"), 0o644))
	if _, err := n.Read(); !errors.Is(err, lock.ErrDamaged) {
		t.Errorf("a damaged table: %v", err)
	}
}

func TestAChangeThatFailsLeavesTheTable(t *testing.T) {
	n := lock.TableFile{Dir: t.TempDir()}
	must(t, n.Update(t.Context(), func(t *lock.Table) error { t.Claims = []lock.Claim{{Job: 1}}; return nil }))
	before, _ := os.ReadFile(filepath.Join(n.Dir, "node.json"))
	want := errors.New("no")
	err := n.Update(t.Context(), func(t *lock.Table) error { t.Claims = nil; return want })
	if err != want {
		t.Errorf("error %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(n.Dir, "node.json")); string(after) != string(before) {
		t.Errorf("the table is now %s", after)
	}
}

func TestClaimsOfManyAtOnceAreAllKept(t *testing.T) {
	n := lock.TableFile{Dir: t.TempDir()}
	var wg sync.WaitGroup
	for job := range 50 {
		wg.Go(func() {
			err := n.Update(t.Context(), func(t *lock.Table) error {
				t.Claims = append(t.Claims, lock.Claim{HCA: node.ID{GUID: fmt.Sprint(job)}, Job: uint32(job)})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if table, err := n.Read(); err != nil || len(table.Claims) != 50 {
		t.Errorf("%d claims, %v", len(table.Claims), err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
