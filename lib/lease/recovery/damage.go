// Package recovery says in which order a lease is undone, and what to do about a journal that does not
// read in full. It is pure: it reads and changes only its arguments.
package recovery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/lease/step"
	"gresnet/lib/network"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
	"gresnet/lib/words/node"
)

// ErrDamaged means that a lease's journal does not read in full, or is gone, and that some of its
// HCAs may not be as they were. gresnet undoes all that reads, and quarantines the HCAs in doubt
// until a person releases them.
var ErrDamaged = errors.New("journal damaged")

// Note is a step with its number in the journal; 0 if the journal does not have it.
type Note struct {
	step.Step
	Number int
	Struck bool
}

// Damage is what is known about a lease whose journal does not read in full.
//
// Some undos need no memory: RDMA devices and interfaces come home, the namespace and the device
// nodes go. The unwinding runs these for all HCAs of the lease, as if the journal had their notes.
// Others need their notes: settings of interfaces, who may open device nodes. If such a note of an
// HCA may be missing, the HCA is in doubt, and later jobs do not get it.
type Damage struct {
	Gaps   []journal.Gap
	Notes  []Note           // every note that reads, struck or not
	Others map[node.ID]bool // HCAs that another lease has by now
	Claims []table.Claim
	Uplink *network.Uplink // nil if it has none
	HCAs   []node.HCA      // as the table describes them
}

// Decode returns the notes of a journal as steps. A note that this program cannot read is a gap. So
// is a lost beginning; headless says why it is lost, and is empty if it is not.
func Decode(book *journal.Journal, headless string) (all []Note, gaps []journal.Gap) {
	gaps = slices.Clone(book.Gaps)
	if headless != "" {
		gaps = append(gaps, journal.Gap{Why: headless})
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

// AddClaims adds the lease's claims, from the node table and from the journal.
func (d *Damage) AddClaims(t table.Table, job uint32, run string) {
	d.HCAs = t.HCAs
	for _, c := range t.Claims {
		if c.Job == job && c.Run == run {
			d.Claims = append(d.Claims, c)
		}
	}
	for _, s := range d.Notes {
		if claim, is := s.Step.(*step.Claim); is {
			d.Claims = append(d.Claims, claim.Claims...)
		}
	}
	if uplink := t.Uplink(job, run); uplink != nil {
		d.Uplink = network.UplinkFrom(*uplink)
	}
}

// Quarantines says to a person which HCAs no job gets, and why.
func (d *Damage) Quarantines(away map[node.ID]string) string {
	var what []string
	for id, reason := range away {
		what = append(what, fmt.Sprintf("%s is quarantined: %s", d.name(id), strings.TrimPrefix(reason, ErrDamaged.Error()+": ")))
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

// Last returns the number of the last note that reads, 0 if none does.
func (d *Damage) Last() int {
	if len(d.Notes) == 0 {
		return 0
	}
	return d.Notes[len(d.Notes)-1].Number
}

// Has tells whether the journal has a note of a kind about an HCA, or with the zero ID about the
// lease.
func (d *Damage) Has(id node.ID, kind string) bool {
	return slices.ContainsFunc(d.Notes, func(s Note) bool { return s.HCA() == id && s.Kind() == kind })
}

// doubted returns the HCAs that may lack a note which their undo needs. The notes about one HCA
// follow each other and begin with that of its device nodes; what a PF does for a VF comes before
// all. So these are the HCAs before and after a gap, and those without such a first note. An HCA
// that another lease has by now is in no doubt.
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
		if !d.Has(id, "access") || d.lacksFirst(id) {
			add(id)
		}
	}
	return ids
}

// lacksFirst tells whether an HCA is of a kind that has a note before all others, and lacks it.
func (d *Damage) lacksFirst(id node.ID) bool {
	first := id.Kind().FirstNote
	return first != "" && !d.Has(id, first)
}

// done tells whether all notes about an HCA are struck: it is home and free.
func (d *Damage) done(id node.ID) bool {
	left := func(s Note) bool { return s.HCA() == id && !s.Struck }
	return d.Has(id, "access") && !slices.ContainsFunc(d.Notes, left)
}

// own returns the lease's HCAs that claims or notes name, without those that another lease has by
// now and those that are done.
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

// Added returns steps whose notes may be missing and whose undo does not need them.
func (d *Damage) Added() []Note {
	var steps []Note
	for _, s := range []step.Step{&network.Overlay{}, &step.Devices{}, &step.Namespace{}, &step.Claim{}} {
		if !d.Has(node.ID{}, s.Kind()) {
			steps = append(steps, Note{Step: s})
		}
	}
	if d.Uplink != nil && !d.Has(node.ID{}, "uplink") {
		steps = append(steps, Note{Step: d.Uplink})
	}
	for _, id := range d.own() {
		if id.IsSlot() { // nothing of it has moved
			if !d.Has(id, "child") {
				steps = append(steps, Note{Step: &step.Child{Of: id, Name: "the interfaces of slots"}})
			}
			continue
		}
		if name := d.nameOf(id); name != "" && !d.Has(id, "rdma") {
			steps = append(steps, Note{Step: &step.RDMA{ID: id, Name: netlink.Name(name)}})
		}
		for _, s := range d.Notes {
			if n, is := s.Step.(*step.Settings); is && n.Of == id && !d.moved(n) {
				steps = append(steps, Note{Step: &step.Link{Of: id, Port: n.Port, Interface: n.Interface, Name: netlink.Name(n.Settings.Name)}})
			}
		}
	}
	return steps
}

// moved tells whether the journal has the note of an interface's move.
func (d *Damage) moved(s *step.Settings) bool {
	return slices.ContainsFunc(d.Notes, func(o Note) bool {
		n, is := o.Step.(*step.Link)
		return is && n.Interface == s.Interface
	})
}

// Uncertain says for each HCA in doubt what is lost about it.
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
	if id.IsSlot() {
		return "" // the node table and the claims have what its HCA had, and its interface stayed
	}
	i := slices.IndexFunc(d.HCAs, func(h node.HCA) bool { return h.ID == id })
	if i < 0 {
		return "which interfaces it had is not known"
	}
	if !d.Has(id, "access") {
		return "who may open its device nodes is not known"
	}
	if d.lacksFirst(id) {
		return id.Kind().WithoutNote
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

// nameOf returns the HCA's name, empty if nothing has it.
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

// name returns an HCA's name for a person, or else its identity.
func (d *Damage) name(id node.ID) string { return cmp.Or(d.nameOf(id), id.String()) }
