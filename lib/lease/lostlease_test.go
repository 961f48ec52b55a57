package lease

import (
	"os"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/test/leasetest"
)

// emptyHost returns a host with a state directory of its own, and nothing in it.
func emptyHost(t *testing.T) *host.Host {
	t.Helper()
	h := &host.Host{State: state.Dir(t.TempDir()), Sys: fstest.MapFS{}, Log: func(event.Event) {}, Now: time.Now}
	if err := h.State.Make(); err != nil {
		t.Fatal(err)
	}
	return h
}

// A prolog of another job looks at what is set aside at any moment.
func TestALeaseIsSetAsideWithItsJournalWhoeverLooksMeanwhile(t *testing.T) {
	h := emptyHost(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				restoreLost(t.Context(), h, false)
			}
		}
	}()
	for job := range uint32(300) {
		leasetest.Write(t, h.State, job+1, time.Hour, []node.ID{leasetest.A})
		l, err := open(t.Context(), h, job+1)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.keepLost(); err != nil {
			t.Errorf("job %d: %v", job+1, err)
		}
		l.Close()
		if h.State.Lease(job + 1).Exists() {
			t.Errorf("job %d has its lease still", job+1)
		}
		for _, dir := range lostLeases(h) {
			if _, err := os.Stat(dir.Journal()); err != nil {
				t.Errorf("job %d: %v", job+1, err)
			}
			if err := os.RemoveAll(string(dir)); err != nil {
				t.Error(err)
			}
		}
		if entries, err := os.ReadDir(h.State.Lost()); err != nil || len(entries) > 0 {
			t.Fatalf("job %d: %v, %v", job+1, entries, err)
		}
	}
	close(stop)
	<-stopped
}

// A PF that is reset takes its VFs from several jobs, and each run of a job that was not requeued is "0".
func TestEveryLeaseThatWasSetAsideIsKnownByItsClaims(t *testing.T) {
	h := emptyHost(t)
	for job := uint32(1); job <= 3; job++ {
		leasetest.Write(t, h.State, job, time.Hour, []node.ID{leasetest.A})
		l, err := open(t.Context(), h, job)
		if err == nil {
			err = l.keepLost()
			l.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	is := Lost(h)
	for job := uint32(1); job <= 4; job++ {
		if got := is(table.Claim{Job: job, Run: "0"}); got != (job < 4) {
			t.Errorf("job %d: %t", job, got)
		}
	}
}
