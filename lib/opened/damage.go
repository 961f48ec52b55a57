package lease

import (
	"fmt"
	"os"
	"path/filepath"

	"gresnet/lib/hint"
	"gresnet/lib/host"
	"gresnet/lib/journal"
	"gresnet/lib/node"
	"gresnet/lib/recovery"
	"gresnet/lib/step"
	"gresnet/lib/table"
	"gresnet/lib/world"
)

// ErrDamaged means that a lease's journal does not read in full, see package recovery.
var ErrDamaged = recovery.ErrDamaged

// damaged looks at what the journal lacks; a journal that lacks nothing is nil.
func (l *open) damaged(all []recovery.Note, gaps []journal.Gap, others map[node.ID]bool) *recovery.Damage {
	d := &recovery.Damage{Gaps: gaps, Notes: all, Others: others}
	// The last steps leave what cannot be overlooked.
	for _, made := range []struct{ kind, name string }{{"namespace", "netns"}, {"devices", "dev"}} {
		if _, err := os.Lstat(filepath.Join(l.world.Dir, made.name)); err == nil && !d.Has(node.ID{}, made.kind) {
			d.Gaps = append(d.Gaps, journal.Gap{After: d.Last(), Why: made.name + " is there without a note"})
		}
	}
	if len(d.Gaps) == 0 {
		return nil
	}
	t, err := l.world.Table.Read()
	if err != nil {
		l.node.Notice(l.world.Job, "%s", err)
	}
	d.AddClaims(t, l.world.Job, l.world.Run)
	return d
}

// doubt keeps from later jobs what may not be as it was, though it is home.
func (l *open) doubt(d *recovery.Damage) {
	for id, reason := range d.Uncertain() {
		if _, away := l.world.Away[id]; !away && !l.world.Gone[world.Part{HCA: id}] {
			l.world.Away[id] = reason
		}
	}
}

// strays brings home what is in the job's namespace though no note speaks of it.
func (l *open) strays() (failed []error) {
	strays, err := step.Strays(l.world)
	if err != nil {
		return []error{err}
	}
	for _, s := range strays {
		failed = append(failed, l.undo(recovery.Note{Step: s})...)
	}
	return failed
}

// setAside ends a lease of which all is undone that can be, and keeps its
// journal for a person. The HCAs in doubt are quarantined by now.
func (l *open) setAside(d *recovery.Damage) error {
	if len(l.world.Away) == 0 {
		l.node.Notice(l.world.Job, "%s: %s: nothing is lost", ErrDamaged, d.Why())
		return removeDir(l.world.Dir)
	}
	err := l.world.Table.Update(l.world.Context, func(t *table.Table) error {
		for i, c := range t.Claims {
			t.Claims[i].Doubt = c.Doubt || c.Job == l.world.Job && c.Run == l.world.Run
		}
		return nil
	})
	if err != nil {
		return remains(l.node.StateFault(err))
	}
	folder := l.node.setAsides()
	path := filepath.Join(folder, fmt.Sprintf("job-%d-%s.journal", l.world.Job, l.node.Now().UTC().Format("20060102T150405.000")))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return remains(l.node.StateFault(err))
	}
	if err := os.Rename(host.JournalIn(l.world.Dir), path); err != nil {
		return remains(l.node.StateFault(err))
	}
	if err := removeDir(l.world.Dir); err != nil {
		return remains(err)
	}
	err = fmt.Errorf("%w: job %d: %s", ErrDamaged, l.world.Job, d.Quarantines(l.world.Away))
	return remains(hint.With(err, "see whether the HCA is as it should be, by what can be read of "+path+", then run: gresnet-epilog release HCA"))
}
