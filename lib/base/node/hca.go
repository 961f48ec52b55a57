// Package node has the words for what a node has: its HCAs, what identifies them and what hangs on them, the P_Keys that
// divide an InfiniBand fabric, and the indices by which Slurm counts devices. It is pure: package scan reads a node.
package node

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
)

// ID identifies an HCA for as long as the hardware sits in its slot. Names
// (mlx5_3, ib0, uverbs3) are attributes that change; an ID does not. A VF's GUID and PCI address
// are such attributes, too: its PF's PCI address and its number identify it.
type ID struct {
	GUID string `json:"guid,omitempty"` // node GUID as sysfs writes it, like 0002:c903:00ab:cdef; not of a VF
	PCI  string `json:"pci,omitempty"`  // PCI address with its domain, of a VF its PF's; missing without a PCI parent
	VF   string `json:"vf,omitempty"`   // number of a VF among those of its PF
	Aux  string `json:"aux,omitempty"`  // the device below the PCI function, where several share it
	Slot string `json:"slot,omitempty"` // number of a slot; without it the HCA as a whole
}

// Whole returns the identity of the HCA that a slot is of.
func (id ID) Whole() ID {
	id.Slot = ""
	return id
}

// Overlaps tells whether two jobs cannot have both: they are the same, or one is a slot of the other.
func (id ID) Overlaps(o ID) bool {
	return id.Whole() == o.Whole() && (id.Slot == o.Slot || id.Slot == "" || o.Slot == "")
}

// String is for people: the GUID, and where it sits; of a VF its PF and its number; the slot.
func (id ID) String() string {
	s := id.GUID
	switch {
	case id.VF != "":
		s = id.PCI + "/vf" + id.VF
	case id.PCI != "":
		s += "@" + id.PCI
	}
	if id.Aux != "" {
		s += "/" + id.Aux
	}
	if id.Slot != "" {
		s += "/slot" + id.Slot
	}
	return s
}

// HCA is one RDMA device of the node, as it was when it was looked at.
type HCA struct {
	ID     ID     `json:"id"`
	Name   string `json:"name"` // the RDMA device's name, mlx5_3
	Driver string `json:"driver,omitempty"`
	Ports  []Port `json:"ports,omitempty"`

	// A VF's own, beside its identity. A GUID of zeros is one that its PF was never told.
	GUID     string `json:"guid,omitempty"`     // node GUID
	Function string `json:"function,omitempty"` // PCI address
}

// PCI returns the PCI address of the HCA's own function.
func (h HCA) PCI() string { return cmp.Or(h.Function, h.ID.PCI) }

// NodeGUID returns the HCA's node GUID.
func (h HCA) NodeGUID() string { return cmp.Or(h.GUID, h.ID.GUID) }

// The link layers of ports, as sysfs writes them.
const Ethernet, InfiniBand = "Ethernet", "InfiniBand"

// Port is one physical port of an HCA.
type Port struct {
	Num       uint32 `json:"num"`
	LinkLayer string `json:"link_layer"`          // "InfiniBand" or "Ethernet", as sysfs writes it
	State     string `json:"state,omitempty"`     // ACTIVE, DOWN, …
	Interface string `json:"interface,omitempty"` // its network interface's name, if it has one
}

// Compare orders HCAs by PCI address, then by what else identifies them: the
// order in which they are numbered when the configuration does not number them.
func Compare(a, b ID) int {
	return cmp.Or(
		strings.Compare(a.PCI, b.PCI),
		len(a.VF)-len(b.VF), // of numbers without zeros in front
		strings.Compare(a.VF, b.VF),
		strings.Compare(a.Aux, b.Aux),
		strings.Compare(a.GUID, b.GUID),
		len(a.Slot)-len(b.Slot),
		strings.Compare(a.Slot, b.Slot),
	)
}

// File returns the identity as the name of a file: GUID@PCI, or PCI,vf=2 for a VF; then, if it has
// them, ",aux=" and ",slot=". It never leads out of a folder, and ParseFile reads it back.
func (id ID) File() string {
	name := escape(id.GUID)
	switch {
	case id.GUID == "" && id.VF != "":
		name = escape(id.PCI)
	case id.PCI != "" || id.VF != "" || id.GUID == "":
		name += "@" + escape(id.PCI)
	}
	for _, p := range []struct{ key, value string }{{"vf", id.VF}, {"aux", id.Aux}, {"slot", id.Slot}} {
		if p.value != "" {
			name += "," + p.key + "=" + escape(p.value)
		}
	}
	return name
}

// escape writes all bytes but letters, digits and a few others as %XX.
func escape(text string) string {
	var b strings.Builder
	for i, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(":_-", c) >= 0 || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// ParseFile reads an identity from the name of a file.
func ParseFile(name string) (id ID, err error) {
	first, rest, _ := strings.Cut(name, ",")
	parts := map[string]string{}
	for p := range strings.SplitSeq(rest, ",") {
		key, value, _ := strings.Cut(p, "=")
		if parts[key], err = url.PathUnescape(value); err != nil {
			return ID{}, fmt.Errorf("read %q as the name of an HCA: %w", name, err)
		}
	}
	id.VF, id.Aux, id.Slot = parts["vf"], parts["aux"], parts["slot"]
	guid, pci, both := strings.Cut(first, "@")
	if !both && id.VF != "" {
		guid, pci = "", guid
	}
	if id.GUID, err = url.PathUnescape(guid); err == nil {
		id.PCI, err = url.PathUnescape(pci)
	}
	if err != nil || id.File() != name {
		return ID{}, fmt.Errorf("read %q as the name of an HCA: it is none", name)
	}
	return id, nil
}
