package lease

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/base/job"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/test/fusetest"
	"gresnet/test/netnstest"
	"gresnet/test/seed"
	"gresnet/test/standin"
)

// With /run/gresnet udev's rule would restrict device nodes, and the plugin expect records, on a node that has
// the packages alone.
func TestWhereNothingHasRunSinceTheBootACleanupAndAReleaseMakeNothing(t *testing.T) {
	n := On(&host.Host{State: state.Dir(filepath.Join(t.TempDir(), "gresnet")), Sys: fstest.MapFS{}, Log: func(event.Event) {}, Now: time.Now})
	if err := n.Cleanup(t.Context(), Cleanup{}); err != nil {
		t.Error(err)
	}
	if err := n.Cleanup(t.Context(), Cleanup{Jobs: []uint32{7}}); err == nil || !strings.Contains(err.Error(), "it has no lease here") {
		t.Error(err)
	}
	if err := n.Release(t.Context(), "mlx5_0"); err == nil || !strings.Contains(err.Error(), "no HCA of that name is quarantined") {
		t.Error(err)
	}
	if n.State.IsMade() {
		t.Error("there is a state directory now")
	}
	if err := n.Cleanup(t.Context(), Cleanup{Boot: true}); err != nil || !n.State.IsMade() {
		t.Errorf("the boot made none: %v", err)
	}
}

// The mark comes after the process that makes it. A cleanup that looked for processes
// before that one came must not take the mark for that of one that is gone.
func TestACleanupThatMeetsAnExternStepAsItStartsSparesTheJob(t *testing.T) {
	n, _ := heldNode(t, byIndex)
	n.Log = func(event.Event) {}
	l, err := open(t.Context(), n.Host, holderJob)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 40 {
		os.Remove(l.World.Dir.Mark())
		cleaned := make(chan error, 1)
		go func() { cleaned <- alive(l, Cleanup{}) }()
		time.Sleep(time.Duration(seed.IntN(5000)) * time.Microsecond)
		end := externStep(t)
		if err := os.WriteFile(l.World.Dir.Mark(), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := <-cleaned
		end()
		if !errors.Is(err, errAlive) {
			t.Fatalf("a job whose extern step starts is taken for gone: %v", err)
		}
	}
}

// externStep starts a process that has the title of the holder's extern step by now.
func externStep(t *testing.T) (end func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: a process of another user is no slurmstepd")
	}
	title := fmt.Sprintf("slurmstepd: [%d.extern]", holderJob)
	return standin.Start(t, exec.Command("bash", "-c", `exec -a "`+title+`" cat /proc/self/comm -`))
}

func TestALeaseThatDoesNotCountIsCleanedUpWhateverItsAge(t *testing.T) {
	n, _ := heldNode(t, byIndex)
	l, err := open(t.Context(), n.Host, holderJob)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := alive(l, Cleanup{}); !errors.Is(err, errAlive) {
		t.Errorf("a job that is about to start: %v", err)
	}
	if err := os.Remove(l.World.Dir.Env()); err != nil {
		t.Fatal(err)
	}
	if err := alive(l, Cleanup{}); err != nil {
		t.Errorf("a lease whose prolog or epilog was killed: %v", err)
	}
}

// What many prologs that wait for one HCA do with its job's lock held must be quick.
func TestAHastyCleanupLooksForAJobThatMayBeAboutToStartOnlyIfItIsMarked(t *testing.T) {
	n, _ := heldNode(t, byIndex)
	l, err := open(t.Context(), n.Host, holderJob)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer externStep(t)()
	if err := alive(l, Cleanup{hasty: true}); !errors.Is(err, errAlive) || errors.Is(err, errLives) {
		t.Errorf("without a mark: %v", err)
	}
	if err := os.WriteFile(l.World.Dir.Mark(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := alive(l, Cleanup{hasty: true}); !errors.Is(err, errLives) {
		t.Errorf("with a mark: %v", err)
	}
}

func TestAJobWhoseLeaseSomebodyRemovedDoesNotWaitForItself(t *testing.T) {
	n, log := heldNode(t, byIndex)
	n.update(t, func(now *table.Table) { now.Claims[0].Job = nextJob })
	again := next
	again.Run = job.Run{Restart: 1}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := n.Take(ctx, again)
	close(log)
	for line := range log {
		if line == "job 2: waits for the prolog or epilog of job 2, which has mlx5_0" {
			t.Error(line)
		}
	}
	// Its HCA is not on this node, which is the node's fault and not the job's.
	if err == nil {
		t.Error("it is given an HCA that is not there, or refused")
	}
}

func TestWhatWasSetAsideIsFreedByAReleaseAndByNoCleanup(t *testing.T) {
	n, log := heldNode(t, byIndex)
	n.update(t, func(now *table.Table) {
		now.Claims[0].Doubt, now.Claims[0].Quarantined, now.Claims[0].Job = true, "damaged", 7
	})
	if err := n.Cleanup(t.Context(), Cleanup{}); err != nil {
		t.Fatal(err)
	}
	// A later run of that job has a lease.
	l, err := create(t.Context(), n.Host, job.Job{ID: 7, Run: job.Run{Restart: 1}})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	// The HCA is not on this node: so it says, and does not say that it is free.
	if err := n.Release(t.Context(), "mlx5_0"); err == nil {
		t.Error("an HCA that is not there was released")
	}
	if _, err := os.Lstat(string(n.State.Lease(7))); err != nil {
		t.Errorf("the later run's lease: %v", err)
	}
	close(log)
	for line := range log {
		if line == "job 7: cleaned up <nil>" || line == "job 7: mlx5_0 is free for jobs again <nil>" {
			t.Error(line)
		}
	}
}

// A look at all processes may be held up. The job's own epilog must not wait for it.
func TestACleanupLooksAtProcessesWithoutTheJobsLock(t *testing.T) {
	n, _ := heldNode(t, byIndex)
	n.Log = func(event.Event) {}
	fusetest.Hold(t, "/proc/self/exe", 0)
	cleaned := make(chan error, 1)
	go func() { cleaned <- n.cleanup(t.Context(), holderJob, Cleanup{}) }()
	for !looks(t) {
		select {
		case err := <-cleaned:
			t.Fatalf("the cleanup was not held up: %v", err)
		default:
		}
	}
	held, err := state.TryLockJob(n.State.Locks(), holderJob)
	switch {
	case err == nil:
		held.Close()
	case looks(t): // else the look was over before the lock was tried
		t.Errorf("while it looks: %v", err)
	}
	if err := <-cleaned; !errors.Is(err, errAlive) {
		t.Errorf("a job that may be about to start: %v", err)
	}
}

// looks tells whether a look for steps runs, of this process.
func looks(t *testing.T) bool {
	t.Helper()
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range children {
		text, _ := os.ReadFile(list)
		for _, pid := range strings.Fields(string(text)) {
			if comm, _ := os.ReadFile("/proc/" + pid + "/comm"); string(comm) == "gresnet-steps\n" {
				return true
			}
		}
	}
	return false
}
