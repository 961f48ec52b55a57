package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gresnet/lib/event"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/journal"
	"gresnet/lib/lock"
	"gresnet/lib/node"
	"gresnet/lib/recovery"
	"gresnet/lib/step"
	"gresnet/lib/table"
	"gresnet/test/fusetest"
	"gresnet/test/leasetest"
	"gresnet/test/netnstest"
)

// The mark comes after the process that makes it. A sweep that looked for processes
// before that one came must not take the mark for that of one that is gone.
func TestASweepThatMeetsAnExternStepAsItStartsSparesTheJob(t *testing.T) {
	n, _ := heldNode(t, byIndex)
	n.Log = func(event.Event) {}
	l, err := n.resume(t.Context(), holderJob)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for range 40 {
		os.Remove(markIn(l.world.Dir))
		swept := make(chan error, 1)
		go func() { swept <- l.alive(Sweep{}) }()
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
		end := externStep(t)
		if err := os.WriteFile(markIn(l.world.Dir), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := <-swept
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
	step := exec.Command("bash", "-c", "exec -a '"+title+"' sleep 60")
	if err := step.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", step.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(line, []byte(title)) {
			break
		}
	}
	return func() { step.Process.Kill(); step.Wait() }
}

func TestALeaseThatDoesNotCountIsSweptWhateverItsAge(t *testing.T) {
	n, _ := heldNode(t, byIndex)
	l, err := n.resume(t.Context(), holderJob)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if err := l.alive(Sweep{}); !errors.Is(err, errAlive) {
		t.Errorf("a job that is about to start: %v", err)
	}
	if err := os.Remove(host.EnvIn(l.world.Dir)); err != nil {
		t.Fatal(err)
	}
	if err := l.alive(Sweep{}); err != nil {
		t.Errorf("a lease whose prolog or epilog was killed: %v", err)
	}
}

// What many prologs that wait for one HCA do with its job's lock held must be quick.
func TestAHastySweepLooksForAJobThatMayBeAboutToStartOnlyIfItIsMarked(t *testing.T) {
	n, _ := heldNode(t, byIndex)
	l, err := n.resume(t.Context(), holderJob)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	defer externStep(t)()
	if err := l.alive(Sweep{hasty: true}); !errors.Is(err, errAlive) || errors.Is(err, errLives) {
		t.Errorf("without a mark: %v", err)
	}
	if err := os.WriteFile(markIn(l.world.Dir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.alive(Sweep{hasty: true}); !errors.Is(err, errLives) {
		t.Errorf("with a mark: %v", err)
	}
}

// leaseOf writes the journal of a lease of HCAs, of which some are home again.
func (n *Host) leaseOf(t *testing.T, id uint32, since time.Duration, hcas []node.ID, home ...node.ID) {
	t.Helper()
	if err := os.RemoveAll(n.Dir(id)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(n.Dir(id), 0o700); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Create(host.JournalIn(n.Dir(id)), journal.Header{Job: id, Run: "0", Since: since})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	claim := &step.Claim{}
	for _, h := range hcas {
		claim.Claims = append(claim.Claims, table.Claim{HCA: h, Name: h.GUID, Job: id, Run: "0"})
		claim.HCAs = append(claim.HCAs, node.HCA{ID: h})
	}
	if err := j.Note("claim", claim); err != nil { // its number is 1
		t.Fatal(err)
	}
	for i, h := range hcas {
		err := j.Note("access", &step.Access{ID: h})
		if err == nil && slices.Contains(home, h) {
			err = j.Strike(i + 2)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestOfTwoLeasesThatClaimAnHCATheYoungerHasIt(t *testing.T) {
	n, _ := heldNode(t, byCount)
	for _, c := range []struct{ older, younger uint32 }{{1, 2}, {2, 1}, {9, 10}} {
		for _, id := range []uint32{c.older, c.younger} {
			defer os.RemoveAll(n.Dir(id))
		}
		n.leaseOf(t, c.older, time.Minute, []node.ID{leasetest.A, leasetest.B}, leasetest.A)
		n.leaseOf(t, c.younger, time.Hour, []node.ID{leasetest.A})
		books, err := n.books()
		if err != nil {
			t.Fatal(err)
		}
		var now table.Table
		for _, b := range books {
			if b.Job == c.older || b.Job == c.younger {
				b.Claim(&now)
			}
		}
		a, _ := now.Holder(leasetest.A)
		b, _ := now.Holder(leasetest.B)
		if a.Job != c.younger || b.Job != c.older {
			t.Errorf("A is job %d's and B is job %d's, wanted %d and %d", a.Job, b.Job, c.younger, c.older)
		}
	}
}

func TestWhatAnotherLeaseHasByNowIsNotTakenFromIt(t *testing.T) {
	n, _ := heldNode(t, byIndex)
	n.leaseOf(t, 7, time.Hour, []node.ID{leasetest.A, leasetest.B})
	n.update(t, func(now *table.Table) {
		now.Claims = []table.Claim{
			{HCA: leasetest.A, Name: "mlx5_0", Job: holderJob, Run: "0"},
			{HCA: leasetest.B, Name: "mlx5_1", Job: 7, Run: "0"},
		}
	})
	for _, damaged := range []bool{false, true} {
		l, err := n.resume(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		if damaged {
			l.journal.Notes[1].Kind = "of a later version"
		}
		notes, damage := l.left()
		if (damage != nil) != damaged {
			t.Fatalf("damage %v", damage)
		}
		for _, s := range notes {
			if s.HCA() == leasetest.A {
				t.Errorf("damaged %v: it would undo %s %s, which is job %d's", damaged, s.Kind(), s.Object(), holderJob)
			}
		}
		if !slices.ContainsFunc(notes, func(s recovery.Note) bool { return s.HCA() == leasetest.B }) {
			t.Errorf("damaged %v: it would leave its own HCA away", damaged)
		}
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

func TestWhatWasSetAsideIsFreedByAReleaseAndByNoSweep(t *testing.T) {
	n, log := heldNode(t, byIndex)
	n.update(t, func(now *table.Table) {
		now.Claims[0].Doubt, now.Claims[0].Quarantined, now.Claims[0].Job = true, "damaged", 7
	})
	if err := n.Sweep(t.Context(), Sweep{}); err != nil {
		t.Fatal(err)
	}
	// A later run of that job has a lease.
	l, err := n.create(t.Context(), job.Job{ID: 7, Run: job.Run{Restart: 1}})
	if err != nil {
		t.Fatal(err)
	}
	l.close()
	// The HCA is not on this node: so it says, and does not say that it is free.
	if err := n.Release(t.Context(), "mlx5_0"); err == nil {
		t.Error("an HCA that is not there was released")
	}
	if _, err := os.Lstat(n.Dir(7)); err != nil {
		t.Errorf("the later run's lease: %v", err)
	}
	close(log)
	for line := range log {
		if line == "job 7: swept <nil>" || line == "job 7: mlx5_0 is free for jobs again <nil>" {
			t.Error(line)
		}
	}
}

// A look at all processes may be held up. The job's own epilog must not wait for it.
func TestASweepLooksAtProcessesWithoutTheJobsLock(t *testing.T) {
	n, _ := heldNode(t, byIndex)
	n.Log = func(event.Event) {}
	fusetest.Hold(t, "/proc/self/exe", 0)
	swept := make(chan error, 1)
	go func() { swept <- n.sweep(t.Context(), holderJob, Sweep{}) }()
	for !looks(t) {
		select {
		case err := <-swept:
			t.Fatalf("the sweep was not held up: %v", err)
		default:
		}
	}
	held, err := lock.TryJob(n.Locks(), holderJob)
	switch {
	case err == nil:
		held.Close()
	case looks(t): // else the look was over before the lock was tried
		t.Errorf("while it looks: %v", err)
	}
	if err := <-swept; !errors.Is(err, errAlive) {
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
