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

// ErrDamaged means that a lease's journal does not read in full, or is gone. gresnet undoes all that
// reads, brings home what is in the job's namespace, and quarantines the lease's HCAs until a person
// releases them.
var ErrDamaged = errors.New("journal damaged")

// Note is a step with its number in the journal; 0 if the journal does not have it.
type Note struct {
	step.Step
	Number int
	Struck bool
}

// Damage is what is known about a lease whose journal does not read in full.
type Damage struct {
	Why    []string      // what does not read
	Claims []table.Claim // the lease's HCAs, without those that another lease has by now
	Uplink *network.Uplink
}

// Decode returns the notes of a journal as steps, and why it is damaged, if it is. headless says why its
// beginning is lost, and is empty if it is not.
func Decode(book *journal.Journal, headless string) (all []Note, why []string) {
	for _, g := range book.Gaps {
		why = append(why, g.Why)
	}
	if headless != "" {
		why = append(why, headless)
	}
	for _, n := range book.Notes {
		s, err := step.Decode(n.Kind, n.Data)
		if err != nil {
			why = append(why, fmt.Sprintf("note %d: %v", n.Number, err))
			continue
		}
		all = append(all, Note{s, n.Number, n.Struck})
	}
	return all, why
}

// DamageOf returns the damage of a lease: its HCAs are those that the node table and its readable notes have.
func DamageOf(why []string, notes []Note, t table.Table, job uint32, run string, others map[node.ID]bool) *Damage {
	d := &Damage{Why: why}
	add := func(c table.Claim) {
		known := slices.ContainsFunc(d.Claims, func(o table.Claim) bool { return o.HCA == c.HCA })
		if c.HCA != (node.ID{}) && !others[c.HCA] && !known {
			d.Claims = append(d.Claims, c)
		}
	}
	for _, c := range t.Claims {
		if c.Job == job && c.Run == run {
			add(c)
		}
	}
	for _, s := range notes {
		if claim, is := s.Step.(*step.Claim); is {
			for _, c := range claim.Claims {
				add(c)
			}
		}
		add(table.Claim{HCA: s.HCA()})
	}
	if uplink := t.Uplink(job, run); uplink != nil {
		d.Uplink = network.UplinkFrom(*uplink)
	}
	return d
}

// Reason says why no job gets an HCA of the lease.
func (d *Damage) Reason() string { return fmt.Sprintf("%s: %s", ErrDamaged, strings.Join(d.Why, ", ")) }

// Quarantines says to a person which HCAs no job gets, and why.
func (d *Damage) Quarantines(away map[node.ID]string) string {
	var what []string
	for id, reason := range away {
		what = append(what, fmt.Sprintf("%s is quarantined: %s", d.name(id), strings.TrimPrefix(reason, ErrDamaged.Error()+": ")))
	}
	slices.Sort(what)
	return strings.Join(what, "; ")
}

// Added returns the steps that a lease has as a whole, and the moves of interfaces whose settings are noted, as far as no
// note is about them: their undo needs none.
func (d *Damage) Added(notes []Note) (added []Note) {
	lacks := func(id node.ID, kind string) bool {
		return !slices.ContainsFunc(notes, func(s Note) bool { return s.HCA() == id && s.Kind() == kind })
	}
	for _, s := range []step.Step{&network.Overlay{}, &step.Devices{}, &step.Namespace{}, &step.Claim{}} {
		if lacks(node.ID{}, s.Kind()) {
			added = append(added, Note{Step: s})
		}
	}
	if d.Uplink != nil && lacks(node.ID{}, "uplink") {
		added = append(added, Note{Step: d.Uplink})
	}
	for _, c := range d.Claims {
		if c.HCA.IsSlot() && lacks(c.HCA, "child") {
			added = append(added, Note{Step: &step.Child{Of: c.HCA, Name: "the interfaces of slots"}})
		}
	}
	for _, s := range notes {
		had, is := s.Step.(*step.Settings)
		moved := func(o Note) bool { m, is := o.Step.(*step.Link); return is && m.Interface == had.Interface }
		if is && !slices.ContainsFunc(notes, moved) { // its settings are for an interface that is home
			added = append(added, Note{Step: &step.Link{Of: had.Of, Port: had.Port, Interface: had.Interface, Name: netlink.Name(had.Settings.Name)}})
		}
	}
	return added
}

// name returns an HCA's name for a person, or else its identity.
func (d *Damage) name(id node.ID) string {
	for _, c := range d.Claims {
		if c.HCA == id {
			return cmp.Or(c.Name, id.String())
		}
	}
	return id.String()
}
