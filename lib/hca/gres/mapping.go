// Package gres says what Slurm's GRES mean on this node (Map), what a text says
// of them (ParseDetail, ParseRequest), and which HCAs a job with some of them
// gets (Choose). It also says which GPU Slurm means by a number (GPUNumbers), and
// which HCAs serve it (Topology). Who says that a job has them is package source's.
//
// There are two kinds of errors. A *Refusal is the job's fault: the job gets
// nothing, and the node is well. Every other error is the node's or the site's.
package gres

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
)

// Entry is one line of the mapping: a GRES and the HCA that it means.
type Entry struct {
	Gres  string   `json:"gres"`
	Type  string   `json:"type,omitempty"` // empty: an HCA of any type
	Index int      `json:"index"`          // Slurm's, over all types of the name
	HCA   node.HCA `json:"hca"`
	GPUs  []int    `json:"gpus,omitempty"` // Slurm's indices of the GPUs that it serves
	Keep  bool     `json:"keep,omitempty"` // its network interface stays in the root namespace
	Take  bool     `json:"take,omitempty"` // jobs get it even if its interface is reserved for the host

	VF config.VF `json:"-"` // what its PF does for it, unless a policy says otherwise

	Part string `json:"part,omitempty"` // of config's Part words
	// Place is that of the HCA in the node table, PKey what the interface is for that gresnet makes,
	// unless a policy says otherwise (0: none), and Network where that interface gets its address.
	Place   int          `json:"-"`
	PKey    node.PKey    `json:"-"`
	Network netip.Prefix `json:"-"`
	Decided bool         `json:"-"` // a policy says otherwise: what it says does not fit the node, the job alone pays for

	keep bool // Keep of the HCA as a whole
	// Slot is what a slot's entry has besides its number, which is in the HCA's identity. It is nil
	// for an HCA that one job has at a time.
	Slot *Slot `json:"slot,omitempty"`

	// Drift is why it is not known which of the node's HCAs it means: HCA is none
	// then. A job that needs no such entry gets what it needs.
	Drift error `json:"-"`
}

// Slot is one of an HCA's.
type Slot struct {
	Number int `json:"number"`
	Of     int `json:"of"` // how many slots the HCA has; 0: any number
}

// Kind returns the kind of what a job gets of the HCA by the entry.
func (e Entry) Kind() node.PartKind {
	if e.Part == "" {
		return e.HCA.ID.Kind()
	}
	return node.KindNamed(e.Part)
}

// String is "nic 0".
func (e Entry) String() string { return fmt.Sprintf("%s %d", e.Gres, e.Index) }

// Mapping says what GRES mean on a node. No HCA is in it twice.
type Mapping []Entry

// ServesGPUs tells whether anybody says which HCA serves which GPU.
func (m Mapping) ServesGPUs() bool {
	return slices.ContainsFunc(m, func(e Entry) bool { return len(e.GPUs) > 0 })
}

// Names tells whether each of some GPUs is said to be served by some HCA.
func (m Mapping) Names(gpus []int) bool {
	return !slices.ContainsFunc(gpus, func(g int) bool {
		return !slices.ContainsFunc(m, func(e Entry) bool { return slices.Contains(e.GPUs, g) })
	})
}

// Has tells whether some entry means an HCA.
func (m Mapping) Has(id node.ID) bool {
	return slices.ContainsFunc(m, func(e Entry) bool { return e.Drift == nil && e.HCA.ID == id })
}

// HCAs returns the mapping's HCAs, of the entries that mean one.
func (m Mapping) HCAs() []node.HCA {
	var hcas []node.HCA
	for _, e := range m {
		if e.Drift == nil {
			hcas = append(hcas, e.HCA)
		}
	}
	return hcas
}

// Drift is what keeps the mapping from holding for the whole node, all of it on one line.
func (m Mapping) Drift() error {
	var all []error
	for _, e := range m {
		if e.Drift != nil {
			all = append(all, e.Drift)
		}
	}
	return hint.Join(all...)
}

// Map maps what the node has as the configuration says. Of configured entries
// each means exactly one HCA, or else has drifted; without any, the HCAs are
// numbered in the order given, which is the node table's: one that came later
// must not shift the others.
func Map(cfg config.Config, have []node.HCA) (Mapping, error) {
	if len(cfg.HCAs) == 0 {
		return number(cfg, have)
	}
	m := make(Mapping, 0, len(cfg.HCAs))
	for _, want := range cfg.HCAs {
		for part := range want.Parts() {
			e := Entry{
				Gres: want.Gres, Type: want.Type, Index: want.Index + part, GPUs: want.GPUsOf(part),
				Keep: want.Interface == config.Keep, Take: want.Take, VF: want.VF, PKey: want.PKey, Network: want.Network,
			}
			hca, err := find(want, part, have)
			if err != nil {
				e.Drift = err
				m = append(m, e)
				continue
			}
			if want.Kind().Slots() {
				e.Part, e.Place, e.keep, e.Keep = want.Part, place(have, hca.ID), e.Keep, true
				e.Slot = &Slot{Number: part, Of: want.Count}
				hca.ID.Slot = strconv.Itoa(part)
				if want.Count == 0 {
					hca.ID.Slot = anySlot
				}
			}
			e.HCA = hca
			for i := range m { // by index: a copy of each entry for each other one takes most of the time
				if m[i].HCA.ID.Overlaps(hca.ID) {
					return nil, hint.With(
						fmt.Errorf("map %s (%s): it is %s, which %s is already", e, want.Match, describe(hca), m[i]),
						"GN183 leave one of the two [[hca]] entries, or correct its match",
					)
				}
			}
			m = append(m, e)
		}
	}
	if err := m.checkParts(cfg); err != nil {
		return m, err
	}
	return m, m.checkPFs()
}

// InExclusiveMode returns the mapping of a node in exclusive mode, where the kernel lets one network
// namespace open an HCA. If an HCA has one slot, and this is for a partition, a job has the whole HCA
// there, and the interface for the partition besides.
func (m Mapping) InExclusiveMode() Mapping {
	m = slices.Clone(m)
	for i, e := range m {
		if e.Kind().WholeIfOne && e.Slot != nil && e.Slot.Of == 1 {
			m[i].HCA.ID, m[i].Slot, m[i].Keep = e.HCA.ID.Whole(), nil, e.keep
		}
	}
	return m
}

// anySlot stands in an identity for a slot whose number is chosen when it is claimed. Nobody holds
// it, unless somebody holds the HCA as a whole.
const anySlot = "any"

// Number gives an entry for any slot a number that no other job has.
func (e Entry) Number(held func(node.ID) (Holder, bool)) Entry {
	if e.HCA.ID.Slot != anySlot {
		return e
	}
	slot := *e.Slot
	for slot.Number = 0; ; slot.Number++ {
		e.HCA.ID.Slot = strconv.Itoa(slot.Number)
		if _, is := held(e.HCA.ID); !is {
			e.Slot = &slot
			return e
		}
	}
}

// place returns where the node table has an HCA.
func place(have []node.HCA, id node.ID) int {
	return slices.IndexFunc(have, func(h node.HCA) bool { return h.ID == id })
}

// checkParts returns an error for an HCA that is one entry's, while another one has parts of it,
// which need not be there yet.
func (m Mapping) checkParts(cfg config.Config) error {
	for _, parts := range cfg.HCAs {
		if !parts.Kind().Splits() {
			continue // it splits none
		}
		i := slices.IndexFunc(m, func(e Entry) bool { return e.Drift == nil && parts.Splits(e.HCA.ID) })
		if i >= 0 {
			return hint.With(
				fmt.Errorf("map %s: it is %s, which another [[hca]] gives in parts (%s %d is the first)", m[i], describe(m[i].HCA), parts.Gres, parts.Index),
				"GN319 leave one of the two [[hca]] entries: jobs get an HCA as a whole or in parts",
			)
		}
	}
	return nil
}

// checkPFs returns an error for a PF that is one entry's, while another one has a part of it: what a
// job does to the PF reaches the part.
func (m Mapping) checkPFs() error {
	for _, part := range m {
		kind := part.HCA.ID.Kind()
		if part.Drift != nil || !kind.Splits() {
			continue
		}
		for _, pf := range m {
			if _, of := kind.PartOf(part.HCA.ID, pf.HCA.ID.PCI); of && pf.Drift == nil && !pf.HCA.ID.Kind().Splits() {
				return hint.With(
					fmt.Errorf("map %s: it is %s %s of %s, which %s is as a whole", part, kind.Title, kind.Number(part.HCA.ID), describe(pf.HCA), pf),
					"GN184 leave either the PF or its VFs out of [[hca]]: a PF is one job's, or its VFs are several jobs'",
				)
			}
		}
	}
	return nil
}

func number(cfg config.Config, have []node.HCA) (Mapping, error) {
	if len(cfg.Slurm.Gres) == 0 {
		return nil, errors.New("number the HCAs: the configuration names no GRES")
	}
	m := make(Mapping, 0, len(have))
	for _, hca := range have {
		// Sites make VFs and subfunctions for virtual machines, too, and their number changes.
		if !hca.ID.Kind().Splits() && !hca.ID.IsSubfunction() {
			m = append(m, Entry{Gres: cfg.Slurm.Gres[0], Index: len(m), HCA: hca})
		}
	}
	return m, nil
}

// find returns the HCA of the node that an entry means, or the part of that number.
func find(want config.HCA, part int, have []node.HCA) (node.HCA, error) {
	if want.Kind().Splits() {
		return findPart(want, part, have)
	}
	var found []node.HCA
	for i := range have {
		if want.Match.Matches(have[i]) {
			found = append(found, have[i])
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return node.HCA{}, hint.With(
			fmt.Errorf("map %s %d (%s): the node has no such HCA; it has %s", want.Gres, want.Index, want.Match, list(have)),
			"GN185 correct match in the configuration, or see whether the HCA is plugged in and its driver loaded",
		)
	}
	return node.HCA{}, hint.With(
		fmt.Errorf("map %s %d (%s): several HCAs match: %s", want.Gres, want.Index, want.Match, list(found)),
		"GN186 match by guid= or rdma=, which tell HCAs of one PCI function apart",
	)
}

func findPart(want config.HCA, number int, have []node.HCA) (node.HCA, error) {
	for _, hca := range have {
		if n, is := want.PartOf(hca.ID); is && n == number {
			return hca, nil
		}
	}
	return node.HCA{}, hint.With(
		fmt.Errorf("map %s %d: %s has no %s %d with an RDMA device", want.Gres, want.Index+number, want.Match.Value, want.Kind().Title, number),
		"GN318 gresnet boot makes the VFs before slurmd starts: journalctl -u gresnet.service says why this one is not there",
	)
}

func describe(h node.HCA) string { return fmt.Sprintf("%s (%s)", h.Name, h.ID) }

func list(hcas []node.HCA) string {
	if len(hcas) == 0 {
		return "none"
	}
	names := make([]string, len(hcas))
	for i, h := range hcas {
		names[i] = describe(h)
	}
	return strings.Join(names, ", ")
}

// of returns the part of the mapping that a GRES name and type mean.
func (m Mapping) of(name, kind string) Mapping {
	var part Mapping
	for _, e := range m {
		if e.Gres == name && (kind == "" || e.Type == "" || e.Type == kind) {
			part = append(part, e)
		}
	}
	return part
}

// find returns where an index of a GRES name is, -1 if it is not there.
func (m Mapping) find(name string, index int) int {
	return slices.IndexFunc(m, func(e Entry) bool { return e.Gres == name && e.Index == index })
}

// String returns what a person needs to see of it: "nic 0-3, hca 0 (mlx5)".
func (m Mapping) String() string {
	type kind struct{ gres, kind string }
	var order []kind
	numbers := map[kind][]int{}
	for _, e := range m {
		k := kind{e.Gres, e.Type}
		if numbers[k] == nil {
			order = append(order, k)
		}
		numbers[k] = append(numbers[k], e.Index)
	}
	if len(order) == 0 {
		return "none"
	}
	parts := make([]string, len(order))
	for i, k := range order {
		slices.Sort(numbers[k])
		parts[i] = k.gres + " " + node.FormatIndices(numbers[k])
		if k.kind != "" {
			parts[i] += " (" + k.kind + ")"
		}
	}
	return strings.Join(parts, ", ")
}
