package lease

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/job"
	"gresnet/lib/base/poll"
	"gresnet/lib/lease/environment"
	"gresnet/lib/lease/event"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
)

// toldTo is what a job's steps are told; nothing if they are told nothing.
func toldTo(t *testing.T, n *Host, job uint32) string {
	t.Helper()
	text, err := os.ReadFile(n.State.Notice(job))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func TestAJobThatGetsFewerHCAsIsToldWhyUntilItsEpilog(t *testing.T) {
	const fewer = "job 2 has fewer HCAs than it could expect on n1: nic 0 "
	for name, c := range map[string]struct {
		toml   string
		change func(*table.Table)
		want   string
	}{
		"a part of an HCA's GPUs": {strings.Replace(byPart, `"first"`, `"none"`, 1), nil,
			fewer + "is not granted: it serves GPUs 0-1, of which the job has 0\n"},
		"an HCA that another job has": {byPart, nil, fewer + "(mlx5_0) is not granted: job 1 has it since 2026-11-21 10:31:00\n"},
		"a quarantined HCA": {byPart, func(now *table.Table) { now.Claims[0].Quarantined = "it h\u00e4ngs\nor not" },
			fewer + "(mlx5_0) is not granted: it is quarantined since job 1: it h?ngs?or not\n"},
		"no GPU that an HCA serves": {strings.Replace(byPart, "gpus = [0, 1]", "gpus = [1]", 1), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := heldNode(t, c.toml)
			n.Log = func(event.Event) {}
			defer externStep(t)()
			if c.change != nil {
				n.update(t, c.change)
			}
			j := next
			j.Node = "n1"
			if err := n.Take(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			if got := toldTo(t, n, nextJob); got != c.want {
				t.Errorf("the job is told %q, want %q", got, c.want)
			}
			if info, err := os.Lstat(n.State.Notice(nextJob)); err == nil && info.Mode() != 0o600 {
				t.Errorf("what the job is told is of mode %s", info.Mode())
			}
			if err := n.Restore(t.Context(), nextJob, nil); err != nil {
				t.Fatal(err)
			}
			if got := toldTo(t, n, nextJob); got != "" {
				t.Errorf("after its epilog it is told %q", got)
			}
		})
	}
}

func TestWhatAnEarlierRunWasToldIsNotSaidToTheNext(t *testing.T) {
	n, _ := heldNode(t, byPart)
	n.Log = func(event.Event) {}
	environment.Notify(n.Host, job.Job{ID: nextJob}, []string{"a reason"})
	if err := n.Take(t.Context(), job.Job{ID: nextJob}); err != nil || toldTo(t, n, nextJob) != "" {
		t.Errorf("a run that asks for nothing is told %q, %v", toldTo(t, n, nextJob), err)
	}
	environment.Notify(n.Host, job.Job{ID: nextJob}, []string{strings.Repeat("long ", 1000)})
	if got := toldTo(t, n, nextJob); len(got) != 1001 || strings.Count(got, "\n") != 1 {
		t.Errorf("it is told %d bytes", len(got))
	}
}

func TestACleanupForgetsWhatJobsWereToldThatAreGone(t *testing.T) {
	const gone, fresh, other = 7, 8, 9
	n, _ := heldNode(t, byPart)
	n.Log = func(event.Event) {}
	old := time.Now().Add(-2 * poll.Grace)
	for _, id := range []uint32{holderJob, gone, fresh, other} {
		environment.Notify(n.Host, job.Job{ID: id}, []string{"a reason"})
		if id != fresh {
			if err := os.Chtimes(n.State.Notice(id), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	held, err := state.TryLockJob(n.State.Locks(), other) // its prolog or epilog runs
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	end := externStep(t) // of the holder, who has a lease
	for _, c := range []struct {
		boot bool
		gone []uint32
		left []uint32
	}{{false, []uint32{gone}, []uint32{holderJob, fresh, other}}, {true, []uint32{gone, fresh}, []uint32{holderJob, other}}} {
		if err := n.Cleanup(t.Context(), Cleanup{Boot: c.boot}); err != nil {
			t.Fatal(err)
		}
		for _, id := range c.gone {
			if got := toldTo(t, n, id); got != "" {
				t.Errorf("boot %t: job %d is told %q", c.boot, id, got)
			}
		}
		for _, id := range c.left {
			if toldTo(t, n, id) == "" {
				t.Errorf("boot %t: job %d is told nothing", c.boot, id)
			}
		}
	}
	// A job that runs, whose lease somebody removed.
	n.returnHCA(t)
	if err := n.forgetGone(true); err != nil || toldTo(t, n, holderJob) == "" {
		t.Errorf("a job that runs is told nothing: %v", err)
	}
	end()
	if err := n.forgetGone(true); err != nil || toldTo(t, n, holderJob) != "" {
		t.Errorf("a job that is gone is told %q, %v", toldTo(t, n, holderJob), err)
	}
}
