// Package inventory is what a person is shown of a node: which HCAs it has, where they sit and
// what they are called in the mapping, for a person who configures a site. It
// changes nothing. What is away in a job is told from the node table.
package inventory

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/node"
	"gresnet/lib/pkey"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/sriov"
	"gresnet/lib/sysfs"
	"gresnet/lib/table"
)

// Inventory is what a node has.
type Inventory struct {
	Mode rdma.Mode
	HCAs []HCA
	GPUs []node.Location

	Parts []config.HCA // the tables of gresnet.toml that give a PF in parts

	SELinux sysfs.SELinux
}

// HCA is one HCA. Gres is empty if the mapping lacks it.
type HCA struct {
	Gres  string
	Type  string
	Index int
	Keep  bool
	Take  bool
	Part  string
	Slots int // how many its HCA has, if it is a slot, or would have if it were not whole

	Network string // where the interfaces that gresnet makes get their addresses

	PKey pkey.PKey // of its slots, or of who has it, unless a policy says otherwise; 0: it has none

	ID       node.ID
	GUID     string // a VF's node GUID now
	Function string // a VF's own PCI address
	VFs      *VFs   // nil: it is no PF
	Name     string
	Twins    []string // other RDMA devices that have its identity: no job gets one of them
	Driver   string
	NUMA     int   // -1: not known
	Cores    []int // that are on its NUMA node, as Slurm numbers them
	Ports    []Port
	Chars    []Char
	Serves   []int // GPUs
	Distance []Level
	Away     bool         // it is not in this network namespace
	Held     *table.Claim // nil: nobody has it
	Refused  string       // why no job gets it, if somebody has looked
}

// VFs says how many VFs a PF has, and how many it can have.
type VFs struct {
	Now   int
	Total int

	Switchdev bool // they are Open vSwitch's to set
}

// pci is the PCI address of the HCA's own function.
func (h HCA) pci() string { return cmp.Or(h.Function, h.ID.PCI) }

// guid is the HCA's node GUID.
func (h HCA) guid() string { return cmp.Or(h.GUID, h.ID.GUID) }

// Port is one port of an HCA.
type Port struct {
	node.Port
	Rate  string
	PKeys []pkey.PKey // of an HCA that is for partitions
}

// Char is one character device of an HCA.
type Char struct {
	Kind string
	Port uint32
	Name string
}

// Level is what an HCA and a GPU have in common, as package node says it.
type Level string

// Input is what is known of a node besides what can be seen on it.
type Input struct {
	Table    table.Table // its HCAs complete with those that no job ever had
	Mapping  gres.Mapping
	Topology gres.Topology // of the table's HCAs
}

// Take looks at a node's HCAs, in the order of the table.
func Take(v *scan.View, sys fs.FS, n Input) (Inventory, error) {
	mode, err := v.Mode()
	if err != nil {
		return Inventory{}, err
	}
	devices, err := v.Devices()
	if err != nil {
		return Inventory{}, err
	}
	s := Inventory{Mode: mode, GPUs: n.Topology.GPUs, SELinux: sysfs.ReadSELinux(sys)}
	for _, known := range n.Table.HCAs {
		h := n.describe(known)
		if err := h.countVFs(sys); err != nil {
			return Inventory{}, err
		}
		i := slices.IndexFunc(devices, func(d scan.Device) bool { return d.ID == known.ID })
		h.Away = i < 0
		if !h.Away {
			if err := h.look(v, sys, devices[i], n.forPartitions(h.ID)); err != nil {
				return Inventory{}, fmt.Errorf("look at %s: %w", devices[i].Name, err)
			}
			for _, d := range devices[i+1:] {
				if d.ID == h.ID {
					h.Twins = append(h.Twins, d.Name)
				}
			}
		}
		if h.NUMA >= 0 {
			cores, err := sysfs.Cores(sys, h.NUMA)
			if err != nil {
				return Inventory{}, err
			}
			h.Cores = cores[h.NUMA]
		}
		s.HCAs = append(s.HCAs, n.inSlots(h)...)
	}
	return s, nil
}

// forPartitions tells whether the mapping has an HCA, or slots of it, for partitions.
func (n Input) forPartitions(id node.ID) bool {
	return slices.ContainsFunc(n.Mapping, func(e gres.Entry) bool { return e.Part == config.PartPKey && e.HCA.ID.Whole() == id })
}

// inSlots returns an HCA, or its slots if the mapping has these.
func (n Input) inSlots(h HCA) (list []HCA) {
	for _, e := range n.Mapping {
		if e.Slot == nil || e.Drift != nil || e.HCA.ID.Whole() != h.ID {
			continue
		}
		slot := h
		slot.entry(n, e)
		list = append(list, slot)
	}
	if len(list) == 0 {
		list = []HCA{h}
	}
	return list
}

// entry completes an HCA, or a slot of it, with what the mapping has of it, and who holds it.
func (h *HCA) entry(n Input, e gres.Entry) {
	h.ID, h.Gres, h.Type, h.Index, h.Keep, h.Take, h.Serves, h.Part = e.HCA.ID, e.Gres, e.Type, e.Index, e.Keep, e.Take, e.GPUs, e.Part
	switch {
	case e.Slot != nil:
		h.Keep, h.Slots = false, e.Slot.Of
	case e.Part == config.PartPKey:
		h.Slots = 1
	}
	h.PKey, h.Network = e.PKey, ""
	if e.Network.IsValid() {
		h.Network = e.Network.String()
	}
	h.Held = n.held(h.ID)
}

// held returns the claim of an HCA, or nil.
func (n Input) held(id node.ID) *table.Claim {
	c, held := n.Table.Holder(id)
	if !held {
		return nil
	}
	return &c
}

// describe is an HCA as the node table, the mapping and PCI have it.
func (n Input) describe(known node.HCA) HCA {
	h := HCA{ID: known.ID, GUID: known.GUID, Function: known.Function, Name: known.Name, Driver: known.Driver, NUMA: -1}
	for _, p := range known.Ports {
		h.Ports = append(h.Ports, Port{Port: p})
	}
	for _, e := range n.Mapping {
		if e.HCA.ID == known.ID {
			h.entry(n, e)
		}
	}
	h.Held = n.held(known.ID)
	if at, found := n.Topology.HCAs[known.ID]; found {
		h.NUMA = at.NUMA
		for _, gpu := range n.Topology.GPUs {
			h.Distance = append(h.Distance, Level(at.To(gpu).Level.String()))
		}
	}
	return h
}

// countVFs completes an HCA that is a PF.
func (h *HCA) countVFs(sys fs.FS) error {
	if h.ID.PCI == "" || h.ID.VF != "" {
		return nil
	}
	now, total, err := sysfs.VFs(sys, h.ID.PCI)
	if total > 0 {
		h.VFs = &VFs{now, total, sriov.InSwitchdev(h.ID.PCI)}
	}
	return err
}

// look completes an HCA with what can be seen of it here.
func (h *HCA) look(v *scan.View, sys fs.FS, d scan.Device, partitions bool) error {
	if err := v.MAD(&d); err != nil {
		return err
	}
	ports, err := v.Ports(d)
	if err != nil {
		return err
	}
	h.Name, h.Driver, h.Ports = d.Name, d.Driver, nil
	for _, p := range d.HCA(ports).Ports {
		rate, err := sysfs.Rate(sys, d.Name, p.Num)
		if err != nil {
			return err
		}
		port := Port{Port: p, Rate: rate}
		if partitions && p.LinkLayer == "InfiniBand" {
			if port.PKeys, err = v.PKeys(d, p.Num); err != nil {
				return err
			}
			port.PKeys = slices.DeleteFunc(port.PKeys, func(k pkey.PKey) bool { return k == 0 })
		}
		h.Ports = append(h.Ports, port)
	}
	for _, c := range d.Chars {
		h.Chars = append(h.Chars, Char{Kind: c.Kind, Port: c.Port, Name: c.Name})
	}
	return nil
}
