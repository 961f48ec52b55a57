// Package lease takes a job's lease of HCAs on a node, and returns it. The prolog takes, the epilog restores. If one
// of them did not end as it should, the next run rolls back its lease.
//
// A lease is a directory, jobs/JOBID below the state directory: the journal, the network namespace,
// the job's device nodes, and env. env is written last and removed first. A lease counts only while env is there.
//
// Read take.go and restore.go first. opened.go opens the lease of a job, under the job's lock. leftovers.go ends what
// earlier runs of a job left, before a prolog takes anything; refuse.go tells a job why it gets nothing. damage.go undoes
// a lease whose journal does not read, or was removed. wait.go, cleanup.go and alive.go handle leases of other jobs;
// release.go frees quarantined HCAs. Package environment writes what the job reads.
//
// A prolog goes through these files: this one, which readies the node; take.go, which asks, claims and fills; pick.go of
// package host, which chooses HCAs, and its read.go, which reads what the moves will lose; plan.go of package step, which
// orders the steps; inflight.go, which does them; lease.go of package environment, which commits. An epilog
// goes through restore.go, rollback.go and return.go. Of package step read the kinds that the job has.
package lease

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
)

// Host is the node that leases are taken on.
type Host struct {
	*host.Host
}

// On is a node that leases are taken on.
func On(h *host.Host) *Host { return &Host{Host: h} }

// begin readies the node and restricts its device nodes, so that no job opens another job's HCAs. Then it restores HCAs that
// the node had lost. The job began at start.
func (n *Host) begin(ctx context.Context, start time.Time) error {
	defer n.Time("look after the node table and who can open device nodes")()
	if err := n.ready(start); err != nil {
		return err
	}
	if err := n.RestrictNodes(ctx); err != nil {
		return err
	}
	restoreLost(ctx, n.Host, false)
	return nil
}

// ready says which jobs leave a record of their prolog, before there is anything else, and makes the
// state directory. The job of the run began at start.
func (n *Host) ready(start time.Time) error {
	since := state.ExpectedSince(state.Lasting, start)
	if err := n.State.Expect(source.Asked(n.Config), since); err != nil {
		n.Notice(0, "%s", err) // only a site's mistake would show less
	}
	if err := n.State.Make(); err != nil {
		return err
	}
	return n.readTable(0)
}

// readTable reads the node table, and names its entries that do not read.
func (n *Host) readTable(id uint32) error {
	t, err := n.Table().Read()
	for path := range t.Unread {
		n.Log(event.Event{Kind: event.TableUnread, Job: id, Warning: fmt.Sprintf("read %s: it is not as it was written", filepath.Join(string(n.State), path))})
	}
	return err
}

// readyAgain readies the node for a run that goes on where others ended. It makes nothing if nothing has run since the
// boot, unless this is the boot: a node that only has the packages must stay as it is.
func (n *Host) readyAgain(boot bool) error {
	if !boot && !n.State.IsMade() {
		return nil
	}
	return n.ready(time.Time{})
}

// RestrictNodes restricts the node's own device nodes to root, if the site wants that. It does nothing after
// setup --undo, which opens them to users again.
func (n *Host) RestrictNodes(ctx context.Context) error {
	return n.withAccess(ctx, func() error {
		if n.State.IsUndone() {
			return nil
		}
		return n.nodes().Restrict()
	})
}

// withAccess calls f while no other run restricts device nodes, or keeps them open.
func (n *Host) withAccess(ctx context.Context, f func() error) error {
	if err := n.State.Make(); err != nil {
		return err
	}
	held, err := state.LockFile(ctx, n.State.AccessLock())
	if err != nil {
		return fmt.Errorf("lock the node's device nodes: %w", err)
	}
	defer held.Close()
	return f()
}

func (n *Host) nodes() devnode.Nodes {
	return devnode.Nodes{Config: n.Config, Sys: n.Sys, Dev: n.Dev, Known: n.State.Known()}
}
