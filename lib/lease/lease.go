// Package lease takes for a job what it holds on a node, and gives it back: the prolog takes, the
// epilog restores, and whoever comes after a run that did not end as it should unwinds.
//
// A lease is a directory, jobs/JOBID below the state directory: the journal, the network
// namespace, the job's device nodes, and env. env is written last and removed first: a lease
// counts while env is there and not before.
//
// Read take.go, inflight.go and env.go for how a lease is taken; restore.go, unwind.go and home.go
// for how it ends; wait.go, sweep.go and alive.go for leases that others have or left. The rare
// path is in files of its own: recover.go for a lease that is gone, damage.go for a journal that
// does not read, rebuild.go for the node table.
package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gresnet/lib/clock"
	"gresnet/lib/config"
	"gresnet/lib/event"
	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/journal"
	"gresnet/lib/link"
	"gresnet/lib/lock"
	"gresnet/lib/netns"
	"gresnet/lib/node"
	"gresnet/lib/world"
)

// ErrRemains means that the node is not as it was and that what is left to
// undo stands in the journal. It is the one failure that needs a person.
var ErrRemains = errors.New("something remains to be undone")

// Host is the node that leases are taken on.
type Host struct {
	*host.Host
	Undo time.Duration // how long one unwinding may take; 0: as long as the lease says
}

// On is a node that leases are taken on.
func On(h *host.Host) *Host { return &Host{Host: h} }

// open is a lease that this process works on, under the job's lock.
type open struct {
	node      *Host
	world     *world.World
	journal   *journal.Journal
	notes     notes
	lost      string            // why the journal's beginning is not known, nothing if it is
	passed    bool              // some of what it notes is another lease's by now
	lostParts []string          // what an unwinding found that the node does not have any more
	unstruck  map[node.ID]error // HCAs that are home, and why the journal does not say so
	until     time.Time         // when an unwinding must end; zero: undoTime after it began
}

// limitsIn is the file by which the SPANK plugin limits the job, in its extern step.
func limitsIn(dir string) string { return filepath.Join(dir, "limits") }

// markIn is the file by which the SPANK plugin says, in the job's extern step,
// that the job has such a step: it lives from the prolog's end to the epilog.
func markIn(dir string) string { return filepath.Join(dir, "extern") }

// prepare makes the state directories. Users reach neither leases nor locks.
func (n *Host) prepare() error {
	if err := os.MkdirAll(n.State, 0o755); err != nil {
		return n.StateFault(err)
	}
	for _, dir := range []string{n.Jobs(), n.Locks()} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return n.StateFault(err)
		}
	}
	return nil
}

// ready makes the state directories, and the node table where that is damaged.
func (n *Host) ready(ctx context.Context) error {
	if err := n.prepare(); err != nil {
		return err
	}
	return n.rebuildTable(ctx)
}

// underLock calls f while nobody else touches the job's lease. The lock's file
// goes when the lease is gone.
func (n *Host) underLock(ctx context.Context, job uint32, f func() error) error {
	held, err := lock.Job(ctx, n.Locks(), job)
	if err != nil {
		return n.StateFault(err)
	}
	return n.under(held, job, f)
}

func (n *Host) under(held *lock.File, job uint32, f func() error) error {
	err := f()
	if _, there := os.Lstat(n.Dir(job)); errors.Is(there, fs.ErrNotExist) {
		return hint.Join(err, held.Remove())
	}
	return hint.Join(err, held.Close())
}

// create starts a lease that does not exist.
func (n *Host) create(ctx context.Context, j job.Job) (*open, error) {
	dir := n.Dir(j.ID)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create a lease for job %d: %w", j.ID, err)
	}
	ns, err := netns.Current()
	if err != nil {
		return nil, hint.Join(err, removeDir(dir))
	}
	h := journal.Header{Job: j.ID, Run: j.Run.String(), Host: ns.String(), Since: clock.SinceBoot(), Undo: n.Config.Deadline.Epilog}
	book, err := journal.Create(host.JournalIn(dir), h)
	if err != nil {
		ns.Close()
		return nil, hint.Join(err, removeDir(dir))
	}
	return n.enter(ctx, dir, book, ns), nil
}

// errNoLease means that a job has no lease: nothing was noted, so nothing was done.
var errNoLease = errors.New("no lease")

// resume opens a lease that somebody began, or is errNoLease.
func (n *Host) resume(ctx context.Context, id uint32) (*open, error) {
	dir := n.Dir(id)
	book, err := journal.Open(host.JournalIn(dir))
	if errors.Is(err, journal.ErrVersion) {
		return nil, n.foreign(ctx, id, err)
	}
	if err == nil && book.Header == (journal.Header{}) {
		book.Close()
		return n.recover(ctx, id, "its first line does not read")
	}
	if errors.Is(err, fs.ErrNotExist) {
		return n.recover(ctx, id, "it is not there any more")
	}
	if err != nil {
		return nil, err
	}
	host, err := netns.Current()
	if err != nil {
		book.Close()
		return nil, err
	}
	if book.Header.Host != "" && book.Header.Host != host.String() {
		book.Close()
		host.Close()
		err := fmt.Errorf("open the lease of job %d: it was taken in another network namespace than this", id)
		return nil, hint.With(err, "run it in the node's root network namespace")
	}
	return n.enter(ctx, dir, book, host), nil
}

func (n *Host) enter(ctx context.Context, dir string, book *journal.Journal, host *netns.NS) *open {
	return &open{node: n, journal: book, world: &world.World{Given: world.Given{
		Host:  host,
		Sys:   n.Sys,
		Dev:   n.Dev,
		CM:    n.CM,
		Dir:   dir,
		Table: n.Table(),
		Locks: n.Locks(),
		Guard: n.Guard,
		Job:   book.Header.Job,
		Run:   book.Header.Run,

		Managers: world.Managers{Run: n.Run},
		Waits:    link.Waits{Context: ctx},
		Context:  ctx,
		Leased:   func(id link.ID) (node.ID, bool) { return n.leasedTo(book.Header.Job, id) },
		Warn: func(id node.ID, problem error) {
			n.Log(event.Event{Kind: event.PortWorse, Job: book.Header.Job, HCA: id.String(), Warning: problem.Error(), Err: problem})
		},
		Notice: func(format string, a ...any) { n.Notice(book.Header.Job, format, a...) },
	}}}
}

// look is a look at the node for this lease's job.
func (l *open) look() *host.Look { return &host.Look{Host: l.node.Host, World: l.world} }

func (l *open) close() {
	l.node.ReportTiming(l.notes.timing())
	l.world.Close()
	l.world.Host.Close()
	l.journal.Close()
}

// undoTime is how long an unwinding may take.
func (l *open) undoTime() time.Duration {
	switch {
	case !l.until.IsZero():
		return time.Until(l.until)
	case l.node.Undo > 0:
		return l.node.Undo
	case l.journal.Header.Undo > 0:
		return l.journal.Header.Undo
	}
	return config.Default().Deadline.Epilog
}

// complete tells whether the lease counts.
func (l *open) complete() bool {
	_, err := os.Lstat(host.EnvIn(l.world.Dir))
	return err == nil
}
