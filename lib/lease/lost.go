package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/state"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
)

// ErrLost means that a driver let go of a device while a job had it: the lease has ended, and the
// node has less than before.
var ErrLost = errors.New("lost during the job")

// lostReason is why later jobs do not get an HCA until it is back and has its settings.
const lostReason = "the node lost it while a job had it; it gets its settings when it is back"

// quarantineLost keeps from later jobs the HCAs of which the node lost something.
func (l *Lease) quarantineLost() {
	for part := range l.World.Gone {
		if _, away := l.World.Away[part.HCA]; !away {
			l.World.Away[part.HCA] = lostReason
		}
	}
}

// keepLost ends a lease after the node lost an HCA, and keeps it with its journal: the entries that are
// not marked undone say what the HCA had, and the claim's is one of them.
func (l *Lease) keepLost() error {
	if l.World.Dir.IsLost() {
		return l.lostAny()
	}
	// As a whole: whoever looks meanwhile takes a folder without a journal for the rest of a removal.
	kept := filepath.Join(l.Host.State.Lost(), fmt.Sprintf("job-%d-%d", l.World.Job, l.Journal.Header.Since))
	if err := l.keepAs(kept, string(l.World.Dir)); err != nil {
		return err
	}
	return l.lostAny()
}

// restoreLost gives HCAs that the node lost, and has again, what they had. again says that it tries
// also what an earlier run could not restore. It fails no job: what it cannot restore stays
// quarantined, with the reason.
func restoreLost(ctx context.Context, h *host.Host, again bool) {
	for _, dir := range lostLeases(h) {
		err := withLost(ctx, h, dir, func(l *Lease) error { return l.restoreLost(again) })
		if err != nil {
			h.Log(event.Event{Kind: event.Remark, Warning: fmt.Sprintf("restore an HCA that the node had lost: %s", err)})
		}
	}
}

// forgetLost marks undone the entries about a lost HCA that a person lets jobs have as it is.
func forgetLost(ctx context.Context, h *host.Host, c table.Claim) (err error) {
	for _, dir := range lostLeases(h) {
		err = hint.Join(err, withLost(ctx, h, dir, func(l *Lease) error {
			if l.World.Job != c.Job || l.World.Run != c.Run {
				return nil
			}
			rest := 0
			entries, _ := l.left()
			for _, s := range entries {
				switch s.HCA() {
				case c.HCA:
					l.markUndone(s)
				case node.ID{}:
				default:
					rest++
				}
			}
			if rest > 0 {
				return nil
			}
			return l.Rollback()
		}))
	}
	return err
}

// Lost returns a function that tells whether a claim is of a lease that has ended, and that stays
// because the node lost an HCA.
func Lost(h *host.Host) func(table.Claim) bool {
	type run struct {
		job  uint32
		name string
	}
	lost := map[run]bool{}
	for _, dir := range lostLeases(h) {
		if undoLog, err := journal.Read(dir.Journal()); err == nil {
			lost[run{undoLog.Header.Job, undoLog.Header.Run}] = true
		}
	}
	return func(c table.Claim) bool { return lost[run{c.Job, c.Run}] }
}

// lostLeases are the directories that keepLost made.
func lostLeases(h *host.Host) (list []state.Lease) {
	entries, err := os.ReadDir(h.State.Lost())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.Notice(0, "%s", h.State.Fault(err))
	}
	for _, e := range entries {
		list = append(list, state.Lease(filepath.Join(h.State.Lost(), e.Name())))
	}
	return list
}

// withLost calls f with a lease that keepLost has kept, under its job's lock. It does nothing while
// somebody else has that.
func withLost(ctx context.Context, h *host.Host, dir state.Lease, f func(*Lease) error) error {
	undoLog, err := journal.Read(dir.Journal())
	if errors.Is(err, fs.ErrNotExist) {
		return dir.Remove() // somebody was killed while he removed it, or just now finished
	}
	if err != nil {
		return err
	}
	err = ifFree(h, undoLog.Header.Job, func() error {
		undoLog, err := journal.Open(dir.Journal())
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		ns, err := netns.Current()
		if err != nil {
			undoLog.Close()
			return err
		}
		l := enter(ctx, h, dir, undoLog, ns)
		l.unused = true // an HCA that comes back counts from nothing
		defer l.Close()
		return f(l)
	})
	if errors.Is(err, state.ErrHeld) {
		return nil
	}
	return err
}

// restoreLost rolls back the rest of a lease, if all is back that the node lost of it.
func (l *Lease) restoreLost(again bool) error {
	if !again && !l.waits() {
		return nil
	}
	entries, _ := l.left()
	if !l.isBack(entries) {
		return nil
	}
	if end, bounded := l.World.Context.Deadline(); bounded {
		l.Until = time.Now().Add(time.Until(end) / 2) // the rest is the caller's own
	}
	err := l.Rollback()
	if errors.Is(err, ErrLost) {
		return nil // it went again, and that was said
	}
	if err == nil {
		l.Host.Notice(l.World.Job, "what the node had lost is back, and has its settings again")
	}
	return err
}

// waits tells whether no run has tried yet to restore what is back.
func (l *Lease) waits() bool {
	t := l.Host.Readable(l.World.Job)
	return !slices.ContainsFunc(t.Claims, func(c table.Claim) bool {
		return c.Job == l.World.Job && c.Run == l.World.Run && c.Quarantined != lostReason
	})
}

// isBack tells whether the node has all that the entries are about.
func (l *Lease) isBack(entries []Entry) bool {
	err := l.World.OnHost(func(v *scan.View) (err error) {
		for _, s := range entries {
			piece := pieceOf(s.Step)
			switch {
			case piece == world.Piece{}:
			case piece == world.Piece{HCA: piece.HCA}:
				_, err = v.Find(piece.HCA)
			default:
				_, err = v.Interface(piece.Interface)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return err == nil
}

// pieceOf returns the piece of an HCA that a step is about.
func pieceOf(s world.Action) world.Piece {
	switch s := s.(type) {
	case *step.Link:
		return world.Piece{HCA: s.Of, Interface: s.Interface}
	case *step.Settings:
		return world.Piece{HCA: s.Of, Interface: s.Interface}
	}
	return world.Piece{HCA: s.HCA()}
}
