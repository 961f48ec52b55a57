package node

import (
	"slices"
	"strconv"
	"strings"
)

// PartKind is a kind of what a job gets of an HCA: all of it, or one of several parts. Package part does
// what differs from kind to kind. This is what tells the kinds apart.
type PartKind struct {
	Name string   // as part in [[hca]] says it; empty: the whole HCA
	Keys []string // of [[hca]], which only some kinds have: network, pkey, vf

	// Number returns the number of a part among those of its HCA, empty for what is no such part. Then each
	// part is an RDMA device of its own, which people call by the title. A kind without Number is of
	// slots: jobs have one RDMA device together, in shared mode.
	Number func(ID) string
	Title  string

	OnEthernet bool // the interfaces of its slots stand on Ethernet alone

	Uncounted bool // count may be left out: an HCA has as many slots as jobs come
	// WholeIfOne says that in exclusive mode a job that has the only slot has the whole HCA, and its
	// interface besides.
	WholeIfOne bool
}

// kinds lists all kinds of parts.
var kinds = []PartKind{
	{
		Name: "vf", Title: "VF", Number: func(id ID) string { return id.VF }, Keys: []string{"vf"},
	},
	{Name: "macvlan", Keys: []string{"network"}, OnEthernet: true},
	{Name: "ipvlan", Keys: []string{"network"}, OnEthernet: true},
	{Name: "pkey", Keys: []string{"network", "pkey"}, WholeIfOne: true},
	{Name: "shared", Uncounted: true},
}

// AddKind adds a kind before all others, and returns a function that removes it. A test does so.
func AddKind(k PartKind) (remove func()) {
	before := kinds
	kinds = slices.Insert(slices.Clone(kinds), 0, k)
	return func() { kinds = before }
}

// KindNames lists the names of all kinds of parts.
func KindNames() (names []string) {
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return names
}

// KindNamed returns the kind of a name, that of whole HCAs for an empty one.
func KindNamed(name string) PartKind {
	if i := slices.IndexFunc(kinds, func(k PartKind) bool { return k.Name == name }); i >= 0 {
		return kinds[i]
	}
	return PartKind{}
}

// Kind returns the kind of what an identity means. A slot is of the kind of its HCA: which interface a job
// has of it, the configuration says, not the identity.
func (id ID) Kind() PartKind {
	for _, k := range kinds {
		if k.Splits() && k.Number(id) != "" {
			return k
		}
	}
	return PartKind{}
}

// Splits tells whether each part of the kind is an RDMA device of its own.
func (k PartKind) Splits() bool { return k.Number != nil }

// Slots tells whether the parts of the kind are slots.
func (k PartKind) Slots() bool { return k.Name != "" && k.Number == nil }

// Has tells whether [[hca]] can have a key with this kind.
func (k PartKind) Has(key string) bool { return slices.Contains(k.Keys, key) }

// PartOf returns the number of the part that an identity means of the HCA at a PCI address; is is false
// if it means none.
func (k PartKind) PartOf(id ID, pci string) (number int, is bool) {
	if !k.Splits() {
		return 0, false
	}
	number, err := strconv.Atoi(k.Number(id))
	return number, err == nil && id.PCI == pci
}

// IsSlot tells whether the identity is that of a slot.
func (id ID) IsSlot() bool { return id.Slot != "" }

// IsSlotOf tells whether the identity is that of a slot of an HCA.
func (id ID) IsSlotOf(whole ID) bool { return id.IsSlot() && id.Whole() == whole }

// IsSubfunction tells whether the identity is that of a scalable function, which the auxiliary bus calls mlx5_core.sf.4.
func (id ID) IsSubfunction() bool { return strings.Contains(id.Aux, ".sf.") }

// IsFunction tells whether the identity is that of a whole PCI function. Others may be parts of it.
func (id ID) IsFunction() bool { return id.PCI != "" && id == ID{GUID: id.GUID, PCI: id.PCI} }
