package scan

import (
	"errors"

	"gresnet/lib/kernel/rdma"
	"gresnet/lib/link"
)

// Sharing returns the names of other RDMA devices that use a network interface, by its index, than
// the device that has it: an rxe or a siw that somebody has put on an HCA's interface.
func (v *View) Sharing(d Device, index int) (names []string, err error) {
	all, err := link.Remembered(v.Link.Conn, "RDMA devices of interfaces", v.byInterface)
	if err != nil {
		return nil, err
	}
	for _, o := range all[index] {
		if o.Index != d.Index {
			names = append(names, o.Name)
		}
	}
	return names, nil
}

// byInterface returns the RDMA devices that use each interface, by its index.
func (v *View) byInterface() (map[int][]rdma.Device, error) {
	list, err := v.list()
	if err != nil {
		return nil, err
	}
	all := map[int][]rdma.Device{}
	for _, d := range list {
		ports, err := v.ports(d.Index)
		if err != nil && v.left(d.Index) {
			continue // another job's prolog took it meanwhile
		}
		if err != nil {
			return nil, err
		}
		for _, p := range ports {
			if p.Interface != 0 {
				all[p.Interface] = append(all[p.Interface], d)
			}
		}
	}
	return all, nil
}

// Twins returns the names of other RDMA devices that have the identity of one. Only devices in software
// can: those that are made on one interface have its MAC for their GUID, and no place.
func (v *View) Twins(d Device) (names []string, err error) {
	if d.ID.PCI != "" {
		return nil, nil
	}
	list, err := v.list()
	if err != nil {
		return nil, err
	}
	for _, o := range list {
		if o.Index == d.Index || o.GUID != d.ID.GUID || o.Sub {
			continue
		}
		other, err := v.retryLookup(o)
		if errors.Is(err, ErrNotFound) {
			continue // another job's prolog took it meanwhile
		}
		if err != nil {
			return nil, err
		}
		if other.ID == d.ID {
			names = append(names, o.Name)
		}
	}
	return names, nil
}
