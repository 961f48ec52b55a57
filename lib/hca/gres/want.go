package gres

import (
	"cmp"
	"fmt"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
)

// Want is what a source says that a job is entitled to: HCAs by their index, or
// so many of them.
type Want struct {
	Gres, Type string
	Indices    []int
	Count      int   // used when Indices is empty
	Cores      []int // the job's, as Slurm numbers them, that a count is to be near; empty: not known
	IfFree     bool  // an index that somebody holds is passed over
	Source     string
}

// String returns the want as Slurm writes one: "nic:mlx5:2", "nic:2(IDX:0-1)".
func (w Want) String() string {
	s := w.Gres
	if w.Type != "" {
		s += ":" + w.Type
	}
	if len(w.Indices) > 0 {
		return fmt.Sprintf("%s:%d(IDX:%s)", s, len(w.Indices), node.FormatIndices(w.Indices))
	}
	return fmt.Sprintf("%s:%d", s, w.Count)
}

// Reason is why a job was refused, for those who count refusals.
type Reason string

// The reasons of refusals.
const (
	NoSuchGres  Reason = "no_such_gres"  // a name, or a type of it, that the mapping lacks
	NoSuchIndex Reason = "no_such_index" // an index that the mapping lacks
	TooMany     Reason = "too_many"      // more than the node has
	HeldByJobs  Reason = "held_by_jobs"  // what other jobs have
	Quarantined Reason = "quarantined"   // what no job gets until an administrator releases it
	UsedByUsers Reason = "used_by_users" // what no job has, and users' processes use
	NoAnswer    Reason = "no_answer"     // slurmctld's, to what the job asked for
	NoPolicy    Reason = "no_policy"     // no [[policy]] fits
	Imitation   Reason = "imitation"     // the job's own words look like Slurm's
	NotHere     Reason = "not_here"      // slurmctld does not have the job on this node any more
	Unheard     Reason = "unheard"       // the job asks for a GRES that no source of the site's gives
	TooSlow     Reason = "too_slow"      // the prolog's time was over
	Other       Reason = "other"
)

// Reasons returns all of them.
func Reasons() []Reason {
	return []Reason{NoSuchGres, NoSuchIndex, TooMany, HeldByJobs, Quarantined, UsedByUsers, NoAnswer, NoPolicy, Imitation, NotHere, Unheard, TooSlow, Other}
}

// Refusal is the job's fault: what it asks for cannot be had on this node,
// and the node is well.
type Refusal struct {
	Ask string // what the job asks, by which source
	Why string
	Do  string // what to do about it, if that is not the usual

	Reason Reason // empty: Other
	cause  error  // that Why says, for who asks which it is
}

func (r *Refusal) Error() string { return r.Ask + ": " + r.Why }
func (r *Refusal) Unwrap() error { return r.cause }

// Hint says whom it concerns.
func (r *Refusal) Hint() string {
	if r.Do != "" {
		return r.Do
	}
	return "GN009 ask for a GRES that this node has, or have gresnet.toml and gres.conf say the same"
}

// lacking is what is wrong if the node does not have what is wanted. Slurm gives a job
// what it counts here: what it gives and the node lacks, the node has lost, or the
// site has not. All others say themselves what they want.
func lacking(reason Reason, w Want, format string, a ...any) error {
	if w.Source == config.Scontrol {
		return hint.With(
			fmt.Errorf("choose %s, which Slurm gave the job: %s", w, fmt.Sprintf(format, a...)),
			"GN192 see whether all HCAs are plugged in and their driver is loaded (gresnet scan), and whether gres.conf says what the node has",
		)
	}
	return refuse(reason, w, format, a...)
}

func refuse(reason Reason, w Want, format string, a ...any) *Refusal {
	return &Refusal{Reason: reason, Ask: fmt.Sprintf("%s, which source %s says the job has", w, w.Source), Why: fmt.Sprintf(format, a...)}
}

// Choose turns wants into entries of the mapping, in the mapping's order.
// Indices come first, since they are Slurm's own choice; counts then take what
// nobody holds, the nearest first and of those the lowest, counts of a type
// before counts of any. near compares HCAs by distance to the job; nil: all are alike.
//
// It is a *Taken if others hold what the job is to have. It may choose nothing,
// and then only because all that was wanted was IfFree.
func Choose(wants []Want, m Mapping, held func(node.ID) (Holder, bool), near func(a, b node.ID) int) ([]Entry, error) {
	if near == nil {
		near = func(node.ID, node.ID) int { return 0 }
	}
	c := chooser{mapping: m, held: held, near: near, chosen: map[node.ID]bool{}}
	for _, w := range wants {
		switch {
		case len(m) == 0:
			return nil, lacking(NoSuchGres, w, "this node has no such GRES; it has %s", m)
		case len(c.mapping.of(w.Gres, w.Type)) == 0:
			return nil, refuse(NoSuchGres, w, "this node has no such GRES; it has %s", m)
		}
		if err := c.indices(w); err != nil {
			return nil, err
		}
	}
	counts := slices.Clone(wants)
	slices.SortStableFunc(counts, func(a, b Want) int { return rank(a) - rank(b) })
	for _, w := range counts {
		if err := c.count(w); err != nil {
			return nil, err
		}
	}
	return c.entries(), nil
}

func rank(w Want) int {
	if w.Type == "" {
		return 1
	}
	return 0
}

// chooser is a choice that is being made.
type chooser struct {
	mapping Mapping
	held    func(node.ID) (Holder, bool)
	near    func(a, b node.ID) int
	chosen  map[node.ID]bool
}

func (c *chooser) indices(w Want) error {
	for _, index := range w.Indices {
		i := c.mapping.find(w.Gres, index)
		if i < 0 {
			return lacking(NoSuchIndex, w, "this node has no %s %d; it has %s", w.Gres, index, c.mapping)
		}
		e := c.mapping[i]
		if w.Type != "" && e.Type != "" && w.Type != e.Type {
			return hint.With(
				fmt.Errorf("choose %s: Slurm says that %s is of type %s, the configuration says %s", w, e, w.Type, e.Type),
				"GN193 have the [[hca]] entries of gresnet.toml, the lines of gres.conf and the types in Gres= of slurm.conf in one order",
			)
		}
		if e.Drift != nil {
			return fmt.Errorf("choose %s: %w", w, e.Drift)
		}
		if by, held := c.held(e.HCA.ID); held && w.IfFree {
			continue
		} else if held {
			return heldIndex(w, Holding{e, by})
		}
		c.chosen[e.HCA.ID] = true
	}
	return nil
}

// PassedOver returns what is wanted if it is free, and is not.
func PassedOver(wants []Want, m Mapping, held func(node.ID) (Holder, bool)) (list []Holding) {
	for _, w := range wants {
		for _, index := range w.Indices {
			i := m.find(w.Gres, index)
			if !w.IfFree || i < 0 || m[i].Drift != nil {
				continue
			}
			if by, is := held(m[i].HCA.ID); is {
				list = append(list, Holding{m[i], by})
			}
		}
	}
	return list
}

func (c *chooser) count(w Want) error {
	if len(w.Indices) > 0 {
		return nil
	}
	all := c.mapping.of(w.Gres, w.Type)
	// What the job's other wants have is none of what is left for this one.
	part := slices.DeleteFunc(slices.Clone(all), func(e Entry) bool { return c.chosen[e.HCA.ID] })
	switch {
	case w.Count > len(all):
		return lacking(TooMany, w, "this node has %d; it has %s", len(all), c.mapping)
	case w.Count > len(part):
		return lacking(TooMany, w, "this node has %d, and %d of them are counted for the job already; it has %s", len(all), len(all)-len(part), c.mapping)
	}
	slices.SortStableFunc(part, func(a, b Entry) int {
		// An entry that says its type is of use to fewer: it goes first.
		return cmp.Or(cmp.Compare(untyped(a, w), untyped(b, w)), c.near(a.HCA.ID, b.HCA.ID), c.jobs(a)-c.jobs(b), a.Index-b.Index)
	})
	var free, drifted []Entry
	var taken []Holding
	for _, e := range part {
		by, held := c.held(e.HCA.ID)
		switch {
		case e.Drift != nil:
			drifted = append(drifted, e)
		case held:
			taken = append(taken, Holding{e, by})
		default:
			free = append(free, e)
		}
	}
	if len(free) < w.Count {
		return short(w, len(free), len(all), taken, drifted)
	}
	c.spread(free, w.Count)
	return nil
}

// spread chooses the first of a list, and a second slot of an HCA only when the list has no other.
func (c *chooser) spread(free []Entry, count int) {
	for range count {
		next := slices.MinFunc(free, func(a, b Entry) int { return c.slots(a) - c.slots(b) })
		c.chosen[next.HCA.ID] = true
		free = slices.DeleteFunc(free, func(e Entry) bool { return e.HCA.ID == next.HCA.ID })
	}
}

// slots counts the slots of an entry's HCA that are chosen already.
func (c *chooser) slots(e Entry) (n int) {
	for id := range c.chosen {
		if id.Whole() == e.HCA.ID.Whole() {
			n++
		}
	}
	return n
}

// jobs counts the slots of an entry's HCA that others have.
func (c *chooser) jobs(e Entry) (n int) {
	if e.Slot == nil {
		return 0
	}
	for _, o := range c.mapping {
		if _, held := c.held(o.HCA.ID); held && o.HCA.ID.Whole() == e.HCA.ID.Whole() {
			n++
		}
	}
	return n
}

func untyped(e Entry, w Want) int {
	if w.Type != "" && e.Type == "" {
		return 1
	}
	return 0
}

func (c *chooser) entries() []Entry {
	var out []Entry
	for _, e := range c.mapping {
		if c.chosen[e.HCA.ID] {
			out = append(out, e)
		}
	}
	return out
}
