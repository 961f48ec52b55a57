package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"gresnet/lib/job"
	"gresnet/lib/node"
	"gresnet/lib/step"
)

// Give takes back what a run of a job holds, or whatever the job holds if run
// is nil. No lease is success, and a lease of a later run is none of this run's
// business.
//
// After an error the node is not as it was: it is always ErrRemains, but for
// one before anything was looked at.
func (n *Node) Give(ctx context.Context, id uint32, run *job.Run) error {
	if err := n.prepare(); err != nil {
		return err
	}
	return n.underLock(ctx, id, func() error {
		l, err := n.resume(id)
		if errors.Is(err, fs.ErrNotExist) {
			return removeDir(n.dir(id))
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrRemains, err)
		}
		defer l.close()
		if held, err := job.ParseRun(l.world.Run); err == nil && run != nil && held.Restart > run.Restart {
			n.notice(id, "the lease is run %s's, this is run %s's epilog: left alone", l.world.Run, run)
			return nil
		}
		return l.unwind()
	})
}

// unwind undoes all that the journal has and that is not struck, in the order
// of the kinds of steps, and removes the lease. A step that cannot be undone
// keeps the HCA from later jobs, the namespace and the journal, and does not
// keep the others from being undone.
func (l *open) unwind() error {
	if err := os.Remove(envIn(l.world.Dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrRemains, err)
	}
	notes, err := l.left()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRemains, err)
	}
	l.world.Away = map[node.ID]string{}
	var failed []error
	for _, s := range notes {
		lasts := s.HCA() == node.ID{} && s.Kind() != (&step.Claim{}).Kind()
		if lasts && len(failed) > 0 {
			continue // what is not home may be in there
		}
		if err := l.timed("undo", s.Step, s.Undo); err != nil {
			failed = append(failed, err)
			l.quarantine(s.HCA(), err)
			continue
		}
		if len(failed) > 0 && s.HCA() == (node.ID{}) {
			continue // the claim: others are free, this lease's quarantine may end later
		}
		if err := l.journal.Strike(s.number); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%w: %w", ErrRemains, errors.Join(failed...))
	}
	return removeDir(l.world.Dir)
}

// noted is a step with its number in the journal.
type noted struct {
	step.Step
	number int
}

// left is what is not struck, in the order in which it is to be undone: by
// kind, and within a kind as it was done, so that what the kernel keeps in the
// order of arrival (interfaces, routes to one place) is in the old order again.
func (l *open) left() ([]noted, error) {
	var notes []noted
	for _, n := range l.journal.Notes {
		if n.Struck {
			continue
		}
		s, err := step.Decode(n.Kind, n.Data)
		if err != nil {
			return nil, err
		}
		notes = append(notes, noted{s, n.Number})
	}
	slices.SortStableFunc(notes, func(a, b noted) int { return step.Rank(a.Step) - step.Rank(b.Step) })
	return notes, nil
}

func (l *open) quarantine(id node.ID, why error) {
	if _, known := l.world.Away[id]; !known && id != (node.ID{}) {
		l.world.Away[id] = why.Error()
	}
}
