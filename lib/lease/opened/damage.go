package opened

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gresnet/lib/hca/world"
	"gresnet/lib/lease/recovery"
	"gresnet/lib/state/table"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/node"
)

// damaged returns what is known of a lease whose journal does not read in full, nil if it does.
func (l *Lease) damaged(all []recovery.Note, why []string, others map[node.ID]bool) *recovery.Damage {
	has := func(kind string) bool {
		return slices.ContainsFunc(all, func(s recovery.Note) bool { return s.Kind() == kind })
	}
	// Nobody can overlook what these steps make.
	for _, made := range []struct{ kind, path string }{{"namespace", l.World.Dir.Netns()}, {"devices", l.World.Dir.Devices()}} {
		if _, err := os.Lstat(made.path); err == nil && !has(made.kind) {
			why = append(why, filepath.Base(made.path)+" is there without a note")
		}
	}
	if len(why) == 0 {
		return nil
	}
	t, err := l.World.Table.Read()
	if err != nil {
		l.Host.Notice(l.World.Job, "%s", err)
	}
	return recovery.DamageOf(why, all, t, l.World.Job, l.World.Run, others)
}

// unnoted returns what the undo of a damaged lease does without notes: it removes what the lease has as a whole, and
// brings RDMA devices home that are in the job's namespace.
func (l *Lease) unnoted(d *recovery.Damage, notes []recovery.Note) []recovery.Note {
	added := d.Added(notes)
	devices, err := strayDevices(l.World, recovery.StepsOf(notes))
	if err != nil {
		l.Host.Notice(l.World.Job, "list the RDMA devices in the job's namespace: %s", err)
	}
	for _, s := range devices {
		added = append(added, recovery.Note{Step: s})
	}
	return added
}

// doubt keeps the HCAs of a damaged lease from later jobs.
func (l *Lease) doubt(d *recovery.Damage) {
	for _, c := range d.Claims {
		if _, away := l.World.Away[c.HCA]; !away && !l.World.Gone[world.Piece{HCA: c.HCA}] {
			l.World.Away[c.HCA] = d.Reason()
		}
	}
}

// bringStraysHome brings home interfaces in the job's namespace that no note is about.
func (l *Lease) bringStraysHome() (failed []error) {
	strays, err := strayLinks(l.World)
	if err != nil {
		return []error{err}
	}
	for _, s := range strays {
		failed = append(failed, l.undo(recovery.Note{Step: s})...)
	}
	return failed
}

// setAside ends a damaged lease after everything is undone that can be, and keeps its journal for a
// person.
func (l *Lease) setAside(d *recovery.Damage) error {
	if len(l.World.Away) == 0 {
		l.Host.Notice(l.World.Job, "%s: the lease has no HCA", d.Reason())
		return l.World.Dir.Remove()
	}
	path := filepath.Join(l.Host.State.Damaged(), fmt.Sprintf("job-%d-%s.journal", l.World.Job, l.Host.Now().UTC().Format("20060102T150405.000")))
	if err := l.keepAs(path, l.World.Dir.Journal()); err != nil {
		return err
	}
	if err := l.World.Dir.Remove(); err != nil {
		return Remains(err)
	}
	err := fmt.Errorf("%w: job %d: %s", recovery.ErrDamaged, l.World.Job, d.Quarantines(l.World.Away))
	return Remains(hint.With(err, "GN216 see whether the HCA is as it should be, by what can be read of "+path+", then run: gresnet release HCA"))
}

// keepAs keeps a file or the folder of a lease that ends, and says in the node table that no lease has its claims
// any more.
func (l *Lease) keepAs(path, file string) error {
	err := l.World.Table.Update(l.World.Context, func(t *table.Table) error {
		for i, c := range t.Claims {
			t.Claims[i].Doubt = c.Doubt || c.Job == l.World.Job && c.Run == l.World.Run
		}
		return nil
	})
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = os.Rename(file, path)
	}
	if err != nil {
		return Remains(l.Host.State.Fault(err))
	}
	return nil
}
