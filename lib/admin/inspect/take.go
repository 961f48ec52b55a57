package inspect

import (
	"fmt"
	"io/fs"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/sriov"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/state/table"
)

// input is what is known of a node besides what can be seen on it.
type input struct {
	Table    table.Table // its HCAs complete with those that no job ever had
	Mapping  gres.Mapping
	Topology gres.Topology // of the table's HCAs
}

// take looks at a node's HCAs, in the order of the table.
func take(v *scan.View, sys fs.FS, n input) (report.Scan, error) {
	mode, err := v.Mode()
	if err != nil {
		return report.Scan{}, err
	}
	devices, err := v.Devices()
	if err != nil {
		return report.Scan{}, err
	}
	s := report.Scan{Mode: mode, HCAs: []report.HCA{}, SELinux: sysfs.ReadSELinux(sys)}
	for _, g := range n.Topology.GPUs {
		s.GPUs = append(s.GPUs, report.GPU{PCI: g.PCI, NUMA: g.NUMA})
	}
	for _, known := range n.Table.HCAs {
		h := n.describe(known)
		if err := countVFs(&h, sys); err != nil {
			return report.Scan{}, err
		}
		i := slices.IndexFunc(devices, func(d scan.Device) bool { return d.ID == known.ID })
		h.Away = i < 0
		if !h.Away {
			if err := look(&h, v, sys, devices[i], n.forPartitions(h.ID)); err != nil {
				return report.Scan{}, fmt.Errorf("look at %s: %w", devices[i].Name, err)
			}
			for _, d := range devices[i+1:] {
				if d.ID == h.ID {
					h.Twins = append(h.Twins, d.Name)
				}
			}
		}
		if *h.NUMA >= 0 {
			cores, err := sysfs.Cores(sys, *h.NUMA)
			if err != nil {
				return report.Scan{}, err
			}
			h.Cores = cores[*h.NUMA]
		}
		s.HCAs = append(s.HCAs, n.inSlots(h)...)
	}
	return s, nil
}

// forPartitions tells whether the mapping has an HCA, or slots of it, for partitions.
func (n input) forPartitions(id node.ID) bool {
	return slices.ContainsFunc(n.Mapping, func(e gres.Entry) bool { return e.Kind().Has("pkey") && e.HCA.ID.Whole() == id })
}

// inSlots returns an HCA, or its slots if the mapping has these.
func (n input) inSlots(h report.HCA) (list []report.HCA) {
	for _, e := range n.Mapping {
		if e.Slot == nil || e.Drift != nil || e.HCA.ID.Whole() != h.ID {
			continue
		}
		slot := h
		n.enter(&slot, e)
		list = append(list, slot)
	}
	if len(list) == 0 {
		list = []report.HCA{h}
	}
	return list
}

// enter completes an HCA, or a slot of it, with what the mapping has of it, and who holds it.
func (n input) enter(h *report.HCA, e gres.Entry) {
	h.Have(e.Gres, e.Type, e.Index)
	h.ID, h.Keep, h.Take, h.Serves, h.Part = e.HCA.ID, e.Keep, e.Take, e.GPUs, e.Part
	switch {
	case e.Slot != nil:
		h.Keep, h.Slots = false, e.Slot.Of
	case e.Kind().WholeIfOne:
		h.Slots = 1
	}
	h.PKey, h.Network = node.PKeyText(e.PKey), ""
	if e.Network.IsValid() {
		h.Network = e.Network.String()
	}
	h.Claim = n.held(h.ID)
}

// held returns the claim of an HCA, or nil.
func (n input) held(id node.ID) *report.Claim {
	c, held := n.Table.Holder(id)
	if !held {
		return nil
	}
	return claimOf(c)
}

// describe returns an HCA as the node table, the mapping and PCI have it.
func (n input) describe(known node.HCA) report.HCA {
	h := report.Known(known)
	h.NUMA = new(-1)
	for _, e := range n.Mapping {
		if e.HCA.ID == known.ID {
			n.enter(&h, e)
		}
	}
	h.Claim = n.held(known.ID)
	if at, found := n.Topology.HCAs[known.ID]; found {
		h.NUMA = &at.NUMA
		for _, gpu := range n.Topology.GPUs {
			h.Distance = append(h.Distance, at.To(gpu).Level.String())
		}
	}
	return h
}

// countVFs completes an HCA that is a PF.
func countVFs(h *report.HCA, sys fs.FS) error {
	if !h.ID.IsFunction() {
		return nil
	}
	now, total, err := sysfs.VFs(sys, h.ID.PCI)
	if total > 0 {
		h.VFs = &report.VFs{Now: now, Total: total, Switchdev: sriov.InSwitchdev(h.ID.PCI)}
	}
	return err
}

// look completes an HCA with what can be seen of it here.
func look(h *report.HCA, v *scan.View, sys fs.FS, d scan.Device, partitions bool) error {
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
		port := report.PortOf(p)
		port.Rate = rate
		if partitions && p.LinkLayer == "InfiniBand" {
			keys, err := v.PKeys(d, p.Num)
			if err != nil {
				return err
			}
			for _, k := range keys {
				if k != 0 {
					port.PKeys = append(port.PKeys, node.PKeyText(k))
				}
			}
		}
		h.Ports = append(h.Ports, port)
	}
	for _, c := range d.Chars {
		h.Chars = append(h.Chars, report.Char{Kind: c.Kind, Port: c.Port, Name: c.Name})
	}
	return nil
}
