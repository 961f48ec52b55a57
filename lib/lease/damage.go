package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/network"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
)

// ErrDamaged means that a lease's journal does not read in full, or is gone. gresnet undoes all that
// reads, returns what is in the job's namespace, and quarantines the lease's HCAs until a person
// releases them.
var ErrDamaged = errors.New("journal damaged")

// openHeadless opens a lease whose journal is gone, or does not say whose lease it is. The node table says what the job
// has. If that is nothing, openHeadless returns errNone: a prolog that was killed before its first entry leaves such a
// folder, too.
func openHeadless(ctx context.Context, h *host.Host, id uint32, undoLog *journal.Journal) (*Lease, error) {
	dir, why := h.State.Lease(id), "its first line does not read"
	if undoLog == nil {
		undoLog, why = new(journal.Journal), "its journal was removed"
		if !dir.Exists() {
			why = "its lease was removed: nobody remembers what its interfaces had"
		}
	}
	t := h.Readable(id)
	run, has := t.RunOf(id)
	if !has && !dir.Begun() {
		undoLog.Close()
		if err := dir.Remove(); err != nil {
			return nil, remains(err)
		}
		return nil, errNone
	}
	undoLog.Header = journal.Header{Version: journal.Version, Job: id, Run: run}
	ns, err := netns.Current()
	if err != nil {
		undoLog.Close()
		return nil, err
	}
	l := enter(ctx, h, dir, undoLog, ns)
	l.headless = why
	return l, nil
}

// foreign quarantines the HCAs of a lease that another version of gresnet took: this version does not guess what that
// one did.
func foreign(ctx context.Context, h *host.Host, id uint32, cause error) error {
	err := h.Table().Update(ctx, func(t *table.Table) error {
		for i, c := range t.Claims {
			if c.Job == id && c.Quarantined == "" {
				t.Claims[i].Quarantined = cause.Error()
			}
		}
		return nil
	})
	if err != nil {
		h.Notice(id, "%s", err)
	}
	err = fmt.Errorf("%w: open the lease of job %d: %w", ErrDamaged, id, cause)
	return hint.With(err, fmt.Sprintf("GN227 run gresnet-epilog of the version that wrote it, with SLURM_JOB_ID=%d", id))
}

// damage is what is known about a lease whose journal does not read in full.
type damage struct {
	why    []string      // what does not read
	claims []table.Claim // the lease's HCAs, without those that another lease has by now
	uplink *network.Uplink
}

// damaged returns what is known of a lease whose journal does not read in full, nil if it does. why says what of it
// does not read.
func (l *Lease) damaged(all []Entry, why []string, others map[node.ID]bool) *damage {
	if l.headless != "" {
		why = append(why, l.headless)
	}
	// What these steps make is there to see.
	for _, made := range []struct{ kind, path string }{{"namespace", l.World.Dir.Netns()}, {"devices", l.World.Dir.Devices()}} {
		if _, err := os.Lstat(made.path); err == nil && !has(all, node.ID{}, made.kind) {
			why = append(why, filepath.Base(made.path)+" is there without an entry")
		}
	}
	if len(why) == 0 {
		return nil
	}
	return damageOf(why, all, l.Host.Readable(l.World.Job), l.World.Job, l.World.Run, others)
}

// has tells whether some entry of a kind is about an HCA.
func has(entries []Entry, id node.ID, kind string) bool {
	return slices.ContainsFunc(entries, func(s Entry) bool { return s.HCA() == id && s.Kind() == kind })
}

// damageOf returns the damage of a lease: its HCAs are those that the node table and its readable entries have.
func damageOf(why []string, entries []Entry, t table.Table, job uint32, run string, others map[node.ID]bool) *damage {
	d := &damage{why: why}
	add := func(c table.Claim) {
		known := slices.ContainsFunc(d.claims, func(o table.Claim) bool { return o.HCA == c.HCA })
		if c.HCA != (node.ID{}) && !others[c.HCA] && !known {
			d.claims = append(d.claims, c)
		}
	}
	for _, c := range t.Of(job, run) {
		add(c)
	}
	for _, s := range entries {
		if claim, is := s.Step.(*step.Claim); is {
			for _, c := range claim.Claims {
				add(c)
			}
		}
		add(table.Claim{HCA: s.HCA()})
	}
	if uplink := t.Uplink(job, run); uplink != nil {
		d.uplink = network.UplinkFrom(*uplink)
	}
	return d
}

// unlisted returns the undos of a damaged lease that need no entry. They come before the entries: moves are undone as
// they stand, and an RDMA device must be back before its interface.
func (l *Lease) unlisted(d *damage, entries []Entry) (added []Entry) {
	devices, err := strayDevices(l.World, stepsOf(entries))
	if err != nil {
		l.Host.Notice(l.World.Job, "list the RDMA devices in the job's namespace: %s", err)
	}
	for _, s := range append(devices, d.added(entries)...) {
		added = append(added, Entry{Step: s})
	}
	return added
}

// added returns the steps that a lease has as a whole, as far as no entry is about them: their undo needs none.
func (d *damage) added(entries []Entry) (added []step.Step) {
	for _, s := range []step.Step{&network.Overlay{}, &step.Devices{}, &step.Namespace{}, &step.Claim{}} {
		if !has(entries, node.ID{}, s.Kind()) {
			added = append(added, s)
		}
	}
	if d.uplink != nil && !has(entries, node.ID{}, "uplink") {
		added = append(added, d.uplink)
	}
	for _, c := range d.claims {
		if c.HCA.IsSlot() && !has(entries, c.HCA, "child") {
			added = append(added, &step.Child{Of: c.HCA, Name: "the interfaces of slots"})
		}
	}
	return added
}

// unmoved returns the moves of interfaces whose settings are still to be undone, as far as none of all entries is about
// them: settings are for an interface that is back.
func unmoved(entries, all []Entry) (added []Entry) {
	for _, s := range entries {
		had, is := s.Step.(*step.Settings)
		moved := func(o Entry) bool { m, is := o.Step.(*step.Link); return is && m.Interface == had.Interface }
		if is && !slices.ContainsFunc(all, moved) {
			added = append(added, Entry{Step: &step.Link{Of: had.Of, Port: had.Port, Interface: had.Interface, Name: netlink.Name(had.Settings.Name)}})
		}
	}
	return added
}

// strayDevices returns the RDMA devices in the job's namespace that no step is about, each as the step whose undo moves
// it back.
func strayDevices(w *world.World, steps []step.Step) (strays []step.Step, err error) {
	err = inJob(w, func(v *scan.View) error {
		devices, err := rdmaDevices(v)
		for _, d := range devices {
			listed := func(s step.Step) bool { r, is := s.(*step.RDMA); return is && r.ID == d.ID }
			if !slices.ContainsFunc(steps, listed) {
				strays = append(strays, &step.RDMA{ID: d.ID, Name: netlink.Name(d.Name)})
			}
		}
		return err
	})
	return strays, err
}

// returnStrays moves back interfaces of hardware in the job's namespace that no entry is about, under their present
// names. It comes after all entries.
func (l *Lease) returnStrays() (failed []error) {
	var strays []Entry
	err := inJob(l.World, func(v *scan.View) error {
		list, err := v.Link.List()
		for _, i := range list {
			hardware := i.ID.Kind == "" || i.ID.Kind == "ipoib"
			if hardware && !i.Loopback {
				strays = append(strays, Entry{Step: &step.Link{Interface: i.ID, Name: netlink.Name(i.Name)}})
			}
		}
		return err
	})
	if err != nil {
		return []error{err}
	}
	for _, s := range strays {
		failed = append(failed, l.undo(s)...)
	}
	return failed
}

// doubt keeps the HCAs of a damaged lease from later jobs.
func (l *Lease) doubt(d *damage) {
	for _, c := range d.claims {
		if _, away := l.World.Away[c.HCA]; !away && !l.World.Gone[world.Piece{HCA: c.HCA}] {
			l.World.Away[c.HCA] = d.reason()
		}
	}
}

// reason says why no job gets an HCA of the lease.
func (d *damage) reason() string { return fmt.Sprintf("%s: %s", ErrDamaged, strings.Join(d.why, ", ")) }

// quarantines says to a person which HCAs no job gets, and why.
func (d *damage) quarantines(away map[node.ID]string) string {
	var what []string
	for id, reason := range away {
		name := id.String()
		if i := slices.IndexFunc(d.claims, func(c table.Claim) bool { return c.HCA == id }); i >= 0 {
			name = cmp.Or(d.claims[i].Name, name)
		}
		what = append(what, fmt.Sprintf("%s is quarantined: %s", name, strings.TrimPrefix(reason, ErrDamaged.Error()+": ")))
	}
	slices.Sort(what)
	return strings.Join(what, "; ")
}

// peers returns the HCAs that another lease has by now, by the node table. This lease returned them and freed them,
// even if its journal does not say so: a lost undone mark must not take them from the other lease. HCAs in this job's
// namespace belong to this lease, whatever the table says.
func (l *Lease) peers(all []Entry) map[node.ID]bool {
	t, err := l.World.Table.Read()
	if err != nil {
		l.Host.Notice(l.World.Job, "%s", err)
	}
	others := map[node.ID]bool{}
	for _, c := range t.Claims {
		if c.Job != 0 && (c.Job != l.World.Job || c.Run != l.World.Run) {
			others[c.HCA] = true
		}
	}
	if !slices.ContainsFunc(all, func(s Entry) bool { return others[s.HCA()] }) {
		return others
	}
	here, err := hcasInside(l.World, stepsOf(all))
	if err != nil {
		l.Host.Notice(l.World.Job, "list what is in the job's namespace: %s", err)
	}
	for _, id := range here {
		delete(others, id)
	}
	return others
}

// inJob calls f with a view of the job's namespace, if there is one.
func inJob(w *world.World, f func(*scan.View) error) error {
	if err := w.InJob(f); !errors.Is(err, world.ErrNoNamespace) {
		return err
	}
	return nil
}

// hcasInside returns the HCAs that have a part in the job's namespace: an RDMA device, or an interface
// that one of the steps is about.
func hcasInside(w *world.World, steps []step.Step) (ids []node.ID, err error) {
	err = inJob(w, func(v *scan.View) error {
		devices, err := rdmaDevices(v)
		if err != nil {
			return err
		}
		for _, d := range devices {
			ids = append(ids, d.ID)
		}
		interfaces, err := v.Link.List()
		for _, s := range steps {
			move, is := s.(*step.Link)
			if is && slices.ContainsFunc(interfaces, func(i link.Interface) bool { return i.ID == move.Interface }) {
				ids = append(ids, move.Of)
			}
		}
		return err
	})
	return ids, err
}

// rdmaDevices returns the RDMA devices that a namespace has for itself.
func rdmaDevices(v *scan.View) ([]scan.Device, error) {
	mode, err := v.Mode()
	if errors.Is(err, rdma.ErrNoRDMA) || err == nil && mode == rdma.Shared {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v.Devices()
}

// setAside ends a damaged lease after everything is undone that can be, and keeps its journal for a
// person.
func (l *Lease) setAside(d *damage) error {
	if len(l.World.Away) == 0 {
		l.Host.Notice(l.World.Job, "%s: the lease has no HCA", d.reason())
		return l.World.Dir.Remove()
	}
	path := filepath.Join(l.Host.State.Damaged(), fmt.Sprintf("job-%d-%s.journal", l.World.Job, l.Host.Now().UTC().Format("20060102T150405.000")))
	err := l.keepAs(path, l.World.Dir.Journal())
	do := "GN216 see whether the HCA is as it should be, by what can be read of " + path + ", then run: gresnet release HCA"
	if errors.Is(err, fs.ErrNotExist) {
		err, do = nil, "GN225 see whether the HCA is as it should be, then run: gresnet release HCA"
	}
	if err == nil {
		err = l.World.Dir.Remove()
	}
	if err != nil {
		return remains(err)
	}
	err = fmt.Errorf("%w: job %d: %s", ErrDamaged, l.World.Job, d.quarantines(l.World.Away))
	return remains(hint.With(err, do))
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
		return remains(l.Host.State.Fault(err))
	}
	return nil
}
