// Package lease takes for a job what it holds on a node, and gives it back: the prolog takes, the
// epilog restores, and whoever comes after a run that did not end as it should unwinds.
//
// A lease is a directory, jobs/JOBID below the state directory: the journal, the network namespace,
// the job's device nodes, and env. env is written last and removed first: a lease counts while env
// is there and not before.
//
// Read take.go and restore.go first. wait.go, sweep.go and alive.go are about leases that others have or left;
// release.go is about quarantined HCAs. opened.go has the lease that a run works on, under the job's lock;
// damage.go is its rare path: a journal that does not read, a lease that somebody has removed. Package environment
// has what the job reads.
//
// A prolog goes through these files: take.go, which asks, claims and fills; pick.go of package host, which chooses
// HCAs, and its read.go, which reads what the moves will lose; plan.go of package plan, which orders the steps;
// inflight.go, which notes and does them; lease.go of package environment, which commits. An epilog goes through
// restore.go, unwind.go and home.go. Of package step read what a job has.
package lease

import (
	"fmt"
	"path/filepath"
	"time"

	"gresnet/lib/hca/source"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state/runs"
)

// Host is the node that leases are taken on.
type Host struct {
	*host.Host
}

// On is a node that leases are taken on.
func On(h *host.Host) *Host { return &Host{Host: h} }

// ready says which jobs leave a sign of their prolog, before there is anything else, and makes the
// state directory. start is when the job began that it is for.
func (n *Host) ready(start time.Time) error {
	if err := runs.Expect(n.State, source.Asked(n.Config), runs.Since(runs.Lasting, start)); err != nil {
		n.Notice(0, "%s", err) // only a site's mistake would show less
	}
	if err := n.State.Make(); err != nil {
		return err
	}
	return n.readTable(0)
}

// readTable reads the node table, and says what of it does not read.
func (n *Host) readTable(id uint32) error {
	t, err := n.Table().Read()
	for path := range t.Unread {
		n.Log(event.Event{Kind: event.TableUnread, Job: id, Warning: fmt.Sprintf("read %s: it is not as it was written", filepath.Join(string(n.State), path))})
	}
	return err
}

// readyAgain readies the node for a run that goes on with what others began. Where nothing has run since the boot it
// makes nothing, unless this is the boot: a node that has the packages alone must stay as it is.
func (n *Host) readyAgain(boot bool) error {
	if !boot && !n.State.IsMade() {
		return nil
	}
	return n.ready(time.Time{})
}
