package lease

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gresnet/lib/hint"
	"gresnet/lib/journal"
	"gresnet/lib/lock"
	"gresnet/lib/node"
	"gresnet/lib/step"
)

// ErrDamaged means that a lease's journal does not read in full, or is gone, and that
// it is not certain that all of the HCAs are as they were. All that reads is
// undone; the HCAs in doubt are quarantined until a person releases them.
var ErrDamaged = errors.New("journal damaged")

// damage is what is known of a lease whose journal does not read in full.
//
// What can be undone without a memory (RDMA devices and interfaces come home, the
// namespace and the device nodes go) is undone for all of the lease's HCAs as if it had
// been noted. What needs one (settings of interfaces, who may open device nodes) must
// have been read: an HCA of which it may be missing is in doubt, and is kept from later
// jobs if it was not.
type damage struct {
	gaps   []journal.Gap
	all    []noted // every note that reads, struck or not
	others map[node.ID]bool
	claims []lock.Claim
	uplink *lock.Uplink
	hcas   []node.HCA // as the table or the journal's claims describe them
}

func (d *damage) why() string {
	var why []string
	for _, g := range d.gaps {
		why = append(why, g.Why)
	}
	return strings.Join(why, ", ")
}

// decode is the journal's notes as steps. One that this program cannot read
// is one that is missing.
func (l *open) decode() (all []noted, gaps []journal.Gap) {
	gaps = slices.Clone(l.journal.Gaps)
	if l.lost != "" {
		gaps = append(gaps, journal.Gap{Why: l.lost})
	}
	for _, n := range l.journal.Notes {
		s, err := step.Decode(n.Kind, n.Data)
		if err != nil {
			gaps = append(gaps, journal.Gap{After: n.Number, Why: fmt.Sprintf("note %d: %v", n.Number, err)})
			continue
		}
		all = append(all, noted{s, n.Number, n.Struck})
	}
	return all, gaps
}

// damaged looks at what the journal lacks; a journal that lacks nothing is nil.
func (l *open) damaged(all []noted, gaps []journal.Gap, others map[node.ID]bool) *damage {
	d := &damage{gaps: gaps, all: all, others: others}
	// The last steps leave what cannot be overlooked.
	for _, made := range []struct{ kind, name string }{{"namespace", "netns"}, {"devices", "dev"}} {
		if _, err := os.Lstat(filepath.Join(l.world.Dir, made.name)); err == nil && !d.has(node.ID{}, made.kind) {
			d.gaps = append(d.gaps, journal.Gap{After: d.last(), Why: made.name + " is there without a note"})
		}
	}
	if len(d.gaps) == 0 {
		return nil
	}
	d.claimed(l)
	return d
}

// claimed finds what the lease's claims are, in the table and in the journal's
// own copy of them.
func (d *damage) claimed(l *open) {
	t, err := l.world.Table.Read()
	if err != nil {
		l.node.notice(l.world.Job, "%s", err)
	}
	d.hcas = t.HCAs
	d.uplink = t.Uplink(l.world.Job, l.world.Run)
	for _, c := range t.Claims {
		if c.Job == l.world.Job && c.Run == l.world.Run {
			d.claims = append(d.claims, c)
		}
	}
	for _, s := range d.all {
		if claim, is := s.Step.(*step.Claim); is {
			d.claims = append(d.claims, claim.Claims...)
			d.hcas = append(d.hcas, claim.HCAs...)
			d.uplink = cmp.Or(d.uplink, claim.Uplink)
		}
	}
}

func (d *damage) last() int {
	if len(d.all) == 0 {
		return 0
	}
	return d.all[len(d.all)-1].number
}

func (d *damage) has(id node.ID, kind string) bool {
	return slices.ContainsFunc(d.all, func(s noted) bool { return s.HCA() == id && s.Kind() == kind })
}

// doubted are the HCAs of which a note that needs a memory may be missing: an HCA's
// follow each other and begin with that of its device nodes, so these are the HCAs
// around a gap, and those of which that is missing. What another lease has by now is
// in no doubt.
func (d *damage) doubted() []node.ID {
	var ids []node.ID
	add := func(id node.ID) {
		if id != (node.ID{}) && !d.others[id] && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, g := range d.gaps {
		var before, after node.ID
		for _, s := range d.all {
			switch {
			case s.HCA() == node.ID{}:
			case s.number <= g.After:
				before = s.HCA()
			case after == node.ID{}:
				after = s.HCA()
			}
		}
		add(before)
		add(after)
	}
	for _, id := range d.own() {
		if !d.has(id, "access") {
			add(id)
		}
	}
	return ids
}

// done tells an HCA of which all notes are struck: it was brought home and freed.
func (d *damage) done(id node.ID) bool {
	left := func(s noted) bool { return s.HCA() == id && !s.struck }
	return d.has(id, "access") && !slices.ContainsFunc(d.all, left)
}

// own are the lease's HCAs that anything is known of, but those that another lease has by
// now, and those that it has done with.
func (d *damage) own() []node.ID {
	var ids []node.ID
	add := func(id node.ID) {
		if id != (node.ID{}) && !d.others[id] && !d.done(id) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, c := range d.claims {
		add(c.HCA)
	}
	for _, s := range d.all {
		add(s.HCA())
	}
	return ids
}

// added are the steps that may have been noted and need no memory to be undone.
func (d *damage) added() []noted {
	var steps []noted
	for _, s := range []step.Step{&step.Overlay{}, &step.Devices{}, &step.Namespace{}, &step.Claim{}} {
		if !d.has(node.ID{}, s.Kind()) {
			steps = append(steps, noted{Step: s})
		}
	}
	if d.uplink != nil && !d.has(node.ID{}, "uplink") {
		steps = append(steps, noted{Step: uplinkFrom(*d.uplink)})
	}
	for _, id := range d.own() {
		if name := d.nameOf(id); name != "" && !d.has(id, "rdma") {
			steps = append(steps, noted{Step: &step.RDMA{ID: id, Name: name}})
		}
		for _, s := range d.all {
			if n, is := s.Step.(*step.Settings); is && n.Of == id && !d.moved(n) {
				steps = append(steps, noted{Step: &step.Link{Of: id, Port: n.Port, Interface: n.Interface, Name: n.Settings.Name}})
			}
		}
	}
	return steps
}

// moved tells whether the note of an interface's move is there.
func (d *damage) moved(s *step.Settings) bool {
	return slices.ContainsFunc(d.all, func(o noted) bool {
		n, is := o.Step.(*step.Link)
		return is && n.Interface == s.Interface
	})
}

// uncertain says of each HCA in doubt what nobody remembers of it.
func (d *damage) uncertain() map[node.ID]string {
	uncertain := map[node.ID]string{}
	for _, id := range d.doubted() {
		if what := d.forgotten(id); what != "" {
			uncertain[id] = fmt.Sprintf("%s: %s: %s", ErrDamaged, d.why(), what)
		}
	}
	return uncertain
}

func (d *damage) forgotten(id node.ID) string {
	i := slices.IndexFunc(d.hcas, func(h node.HCA) bool { return h.ID == id })
	if i < 0 {
		return "which interfaces it had is not known"
	}
	if !d.has(id, "access") {
		return "who may open its device nodes is not known"
	}
	for _, p := range d.hcas[i].Ports {
		known := slices.ContainsFunc(d.all, func(s noted) bool {
			n, is := s.Step.(*step.Settings)
			return is && n.Of == id && n.Port == p.Num
		})
		if p.Interface != "" && !known {
			return "the settings of " + p.Interface + " are not known"
		}
	}
	return ""
}

// doubt keeps from later jobs what may not be as it was, though it is home.
func (l *open) doubt(d *damage) {
	for id, reason := range d.uncertain() {
		if _, away := l.world.Away[id]; !away && !l.world.Gone[step.Part{HCA: id}] {
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
		failed = append(failed, l.undo(noted{Step: s})...)
	}
	return failed
}

// setAside ends a lease of which all is undone that can be, and keeps its
// journal for a person. The HCAs in doubt are quarantined by now.
func (l *open) setAside(d *damage) error {
	if len(l.world.Away) == 0 {
		l.node.notice(l.world.Job, "%s: %s: nothing is lost", ErrDamaged, d.why())
		return removeDir(l.world.Dir)
	}
	err := l.world.Table.Update(l.world.Context, func(t *lock.Table) error {
		for i, c := range t.Claims {
			t.Claims[i].Doubt = c.Doubt || c.Job == l.world.Job && c.Run == l.world.Run
		}
		return nil
	})
	if err != nil {
		return remains(l.node.stateFault(err))
	}
	folder := l.node.setAsides()
	path := filepath.Join(folder, fmt.Sprintf("job-%d-%s.journal", l.world.Job, l.node.Now().UTC().Format("20060102T150405.000")))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return remains(l.node.stateFault(err))
	}
	if err := os.Rename(journalIn(l.world.Dir), path); err != nil {
		return remains(l.node.stateFault(err))
	}
	if err := removeDir(l.world.Dir); err != nil {
		return remains(err)
	}
	var what []string
	for id, reason := range l.world.Away {
		what = append(what, fmt.Sprintf("%s is quarantined: %s", d.name(id), strings.TrimPrefix(reason, ErrDamaged.Error()+": ")))
	}
	slices.Sort(what)
	err = fmt.Errorf("%w: job %d: %s", ErrDamaged, l.world.Job, strings.Join(what, "; "))
	return remains(hint.With(err, "see whether the HCA is as it should be, with what reads of "+path+", then run: gresnet-epilog release HCA"))
}

// nameOf is the HCA's name, nothing if nobody remembers it.
func (d *damage) nameOf(id node.ID) string {
	for _, c := range d.claims {
		if c.HCA == id {
			return c.Name
		}
	}
	for _, s := range d.all {
		if n, is := s.Step.(*step.Access); is && n.ID == id {
			return n.Name
		}
	}
	for _, h := range d.hcas {
		if h.ID == id {
			return h.Name
		}
	}
	return ""
}

func (d *damage) name(id node.ID) string { return cmp.Or(d.nameOf(id), id.String()) }
