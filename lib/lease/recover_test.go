package lease

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/lease/event"
	"gresnet/lib/state/table"
	"gresnet/test/leasetest"
)

// The interfaces of an HCA whose lease somebody removed are bare where the kernel has
// returned them.
func TestAnHCAWhoseLeaseSomebodyRemovedIsKeptUntilAPersonHasSeenIt(t *testing.T) {
	again := next
	again.Run = job.Run{Restart: 1}
	other := next
	other.ID = 3
	takes := func(t *testing.T, n *Host, j job.Job) error {
		if err := n.Take(t.Context(), j); err != nil {
			return err
		}
		refused, err := os.ReadFile(n.State.Lease(j.ID).Env())
		return errors.Join(errors.New(string(refused)), err)
	}
	const removed = "its lease was removed: nobody remembers what its interfaces had"
	const lost = "journal damaged: " + removed
	for name, c := range map[string]struct {
		run      func(*testing.T, *Host) error
		finds    string // what the first one says
		own      bool   // it is that job's, or all jobs'
		finished bool   // one that comes after it has nothing to do
	}{
		"its epilog":        {func(t *testing.T, n *Host) error { return n.Restore(t.Context(), nextJob, nil) }, removed, true, true},
		"a cleanup":         {func(t *testing.T, n *Host) error { return n.Cleanup(t.Context(), Cleanup{}) }, removed, true, true},
		"its prolog, again": {func(t *testing.T, n *Host) error { return takes(t, n, again) }, removed, true, false},
		"another's prolog":  {func(t *testing.T, n *Host) error { return takes(t, n, other) }, "it is quarantined since job 2: " + lost, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := heldNode(t, byIndex)
			var kept []event.Event
			n.Log = func(e event.Event) {
				if e.Kind == event.HCAQuarantined {
					kept = append(kept, e)
				}
				if strings.Contains(e.Notice, "waits") {
					t.Errorf("it waits: %s", e.Notice)
				}
			}
			for quarantined, text := range []string{"", "a name is taken"} {
				n.update(t, func(now *table.Table) {
					now.Claims[0].Job, now.Claims[0].Doubt, now.Claims[0].Quarantined = nextJob, false, text
				})
				if quarantined == 1 && !c.finished {
					continue // no prolog looks at what is quarantined
				}
				err := c.run(t, n)
				if err == nil || !strings.Contains(err.Error(), c.finds) {
					t.Errorf("it ends with %v", err)
				}
				if errors.Is(err, ErrRemains) != c.own || errors.Is(err, ErrDamaged) != c.own {
					t.Errorf("the exit code is wrong: %v", err)
				}
				if c.own && !strings.HasSuffix(hint.Of(err), "then run: gresnet release HCA") {
					t.Errorf("the hint is %q", hint.Of(err))
				}
				before, _ := n.Table().Read()
				if claim := before.Claims[0]; len(before.Claims) != 1 || !claim.Doubt || !strings.HasPrefix(claim.Quarantined, lost) {
					t.Errorf("the claims are %+v", before.Claims)
				}
				err = c.run(t, n)
				if c.finished && err != nil || !c.finished && (err == nil || !strings.Contains(err.Error(), "it is quarantined since job 2: "+lost)) {
					t.Errorf("what comes after it ends with %v", err)
				}
				if after, _ := n.Table().Read(); fmt.Sprint(after) != fmt.Sprint(before) {
					t.Errorf("the table was %+v and is %+v", before, after)
				}
				if len(kept) != quarantined+1 || kept[0].HCA != leasetest.A.String() {
					t.Errorf("it was told that %+v", kept)
				}
			}
		})
	}
}
