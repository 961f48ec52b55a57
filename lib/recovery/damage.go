// Package recovery says what to do about a journal or a node table that does not read in
// full. It is pure: it reads what it is given, and changes nothing but that.
package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/journal"
	"gresnet/lib/node"
	"gresnet/lib/step"
	"gresnet/lib/table"
)

// ErrDamaged means that a lease's journal does not read in full, or is gone, and that
// it is not certain that all of the HCAs are as they were. All that reads is
// undone; the HCAs in doubt are quarantined until a person releases them.
var ErrDamaged = errors.New("journal damaged")

// Note is a step with its number in the journal, 0 if it is not in there.
type Note struct {
	step.Step
	Number int
	Struck bool
}

// Damage is what is known of a lease whose journal does not read in full.
//
// What can be undone without a memory (RDMA devices and interfaces come home, the
// namespace and the device nodes go) is undone for all of the lease's HCAs as if it had
// been noted. What needs one (settings of interfaces, who may open device nodes) must
// have been read: an HCA of which it may be missing is in doubt, and is kept from later
// jobs if it was not.
type Damage struct {
	Gaps   []journal.Gap
	Notes  []Note           // every note that reads, struck or not
	Others map[node.ID]bool // HCAs that another lease has by now
	Claims []table.Claim
	Uplink *step.Uplink // nil if it has none
	HCAs   []node.HCA   // as the table or the journal's claims describe them
}

// Decode returns the notes of a journal as steps. One that this program cannot read is a gap,
// and so is a beginning that is lost: why, if it is.
func Decode(book *journal.Journal, lost string) (all []Note, gaps []journal.Gap) {
	gaps = slices.Clone(book.Gaps)
	if lost != "" {
		gaps = append(gaps, journal.Gap{Why: lost})
	}
	for _, n := range book.Notes {
		s, err := step.Decode(n.Kind, n.Data)
		if err != nil {
			gaps = append(gaps, journal.Gap{After: n.Number, Why: fmt.Sprintf("note %d: %v", n.Number, err)})
			continue
		}
		all = append(all, Note{s, n.Number, n.Struck})
	}
	return all, gaps
}

// AddClaims adds what the lease has claimed, by the node table and by the journal's own copy.
func (d *Damage) AddClaims(t table.Table, job uint32, run string) {
	d.HCAs = t.HCAs
	uplink := t.Uplink(job, run)
	for _, c := range t.Claims {
		if c.Job == job && c.Run == run {
			d.Claims = append(d.Claims, c)
		}
	}
	for _, s := range d.Notes {
		if claim, is := s.Step.(*step.Claim); is {
			d.Claims = append(d.Claims, claim.Claims...)
			d.HCAs = append(d.HCAs, claim.HCAs...)
			uplink = cmp.Or(uplink, claim.Uplink)
		}
	}
	if uplink != nil {
		d.Uplink = step.UplinkFrom(*uplink)
	}
}

// Quarantines says for people which HCAs are kept from jobs, and why.
func (d *Damage) Quarantines(away map[node.ID]string) string {
	var what []string
	for id, reason := range away {
		what = append(what, fmt.Sprintf("%s is quarantined: %s", d.Name(id), strings.TrimPrefix(reason, ErrDamaged.Error()+": ")))
	}
	slices.Sort(what)
	return strings.Join(what, "; ")
}

// Why says what the journal lacks.
func (d *Damage) Why() string {
	var why []string
	for _, g := range d.Gaps {
		why = append(why, g.Why)
	}
	return strings.Join(why, ", ")
}

// Last is the number of the last note that reads, 0 if none does.
func (d *Damage) Last() int {
	if len(d.Notes) == 0 {
		return 0
	}
	return d.Notes[len(d.Notes)-1].Number
}

// Has tells whether a note of a kind is there; of the whole lease: the zero ID.
func (d *Damage) Has(id node.ID, kind string) bool {
	return slices.ContainsFunc(d.Notes, func(s Note) bool { return s.HCA() == id && s.Kind() == kind })
}

// doubted are the HCAs of which a note that needs a memory may be missing: an HCA's
// follow each other and begin with that of its device nodes, so these are the HCAs
// around a gap, and those of which that is missing. What another lease has by now is
// in no doubt.
func (d *Damage) doubted() []node.ID {
	var ids []node.ID
	add := func(id node.ID) {
		if id != (node.ID{}) && !d.Others[id] && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, g := range d.Gaps {
		var before, after node.ID
		for _, s := range d.Notes {
			switch {
			case s.HCA() == node.ID{}:
			case s.Number <= g.After:
				before = s.HCA()
			case after == node.ID{}:
				after = s.HCA()
			}
		}
		add(before)
		add(after)
	}
	for _, id := range d.own() {
		if !d.Has(id, "access") {
			add(id)
		}
	}
	return ids
}

// done tells an HCA of which all notes are struck: it was brought home and freed.
func (d *Damage) done(id node.ID) bool {
	left := func(s Note) bool { return s.HCA() == id && !s.Struck }
	return d.Has(id, "access") && !slices.ContainsFunc(d.Notes, left)
}

// own are the lease's HCAs that anything is known of, but those that another lease has by
// now, and those that it has done with.
func (d *Damage) own() []node.ID {
	var ids []node.ID
	add := func(id node.ID) {
		if id != (node.ID{}) && !d.Others[id] && !d.done(id) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	for _, c := range d.Claims {
		add(c.HCA)
	}
	for _, s := range d.Notes {
		add(s.HCA())
	}
	return ids
}

// Added are the steps that may have been noted and need no memory to be undone.
func (d *Damage) Added() []Note {
	var steps []Note
	for _, s := range []step.Step{&step.Overlay{}, &step.Devices{}, &step.Namespace{}, &step.Claim{}} {
		if !d.Has(node.ID{}, s.Kind()) {
			steps = append(steps, Note{Step: s})
		}
	}
	if d.Uplink != nil && !d.Has(node.ID{}, "uplink") {
		steps = append(steps, Note{Step: d.Uplink})
	}
	for _, id := range d.own() {
		if name := d.nameOf(id); name != "" && !d.Has(id, "rdma") {
			steps = append(steps, Note{Step: &step.RDMA{ID: id, Name: name}})
		}
		for _, s := range d.Notes {
			if n, is := s.Step.(*step.Settings); is && n.Of == id && !d.moved(n) {
				steps = append(steps, Note{Step: &step.Link{Of: id, Port: n.Port, Interface: n.Interface, Name: n.Settings.Name}})
			}
		}
	}
	return steps
}

// moved tells whether the note of an interface's move is there.
func (d *Damage) moved(s *step.Settings) bool {
	return slices.ContainsFunc(d.Notes, func(o Note) bool {
		n, is := o.Step.(*step.Link)
		return is && n.Interface == s.Interface
	})
}

// Uncertain says of each HCA in doubt what nobody remembers of it.
func (d *Damage) Uncertain() map[node.ID]string {
	uncertain := map[node.ID]string{}
	for _, id := range d.doubted() {
		if what := d.forgotten(id); what != "" {
			uncertain[id] = fmt.Sprintf("%s: %s: %s", ErrDamaged, d.Why(), what)
		}
	}
	return uncertain
}

func (d *Damage) forgotten(id node.ID) string {
	i := slices.IndexFunc(d.HCAs, func(h node.HCA) bool { return h.ID == id })
	if i < 0 {
		return "which interfaces it had is not known"
	}
	if !d.Has(id, "access") {
		return "who may open its device nodes is not known"
	}
	for _, p := range d.HCAs[i].Ports {
		known := slices.ContainsFunc(d.Notes, func(s Note) bool {
			n, is := s.Step.(*step.Settings)
			return is && n.Of == id && n.Port == p.Num
		})
		if p.Interface != "" && !known {
			return "the settings of " + p.Interface + " are not known"
		}
	}
	return ""
}

// nameOf is the HCA's name, nothing if nobody remembers it.
func (d *Damage) nameOf(id node.ID) string {
	for _, c := range d.Claims {
		if c.HCA == id {
			return c.Name
		}
	}
	for _, s := range d.Notes {
		if n, is := s.Step.(*step.Access); is && n.ID == id {
			return n.Name
		}
	}
	for _, h := range d.HCAs {
		if h.ID == id {
			return h.Name
		}
	}
	return ""
}

// Name is what a person calls an HCA: its name, or else its identity.
func (d *Damage) Name(id node.ID) string { return cmp.Or(d.nameOf(id), id.String()) }
