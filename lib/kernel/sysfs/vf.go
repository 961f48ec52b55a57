package sysfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"gresnet/lib/base/node"
)

// HCA says which of the node's HCAs an RDMA device is, by its name, its node GUID and where it
// sits. The identity of a VF is its PF and its number there: its GUID is 0 until its PF is told
// another one.
func HCA(sys fs.FS, name, guid string, at BusAddress) (node.HCA, error) {
	h := node.HCA{ID: node.ID{GUID: guid, PCI: at.PCI, Aux: at.Aux}, Name: name}
	if at.PCI == "" {
		return h, nil
	}
	pf, number, err := parentOf(sys, at.PCI)
	if pf == "" || err != nil {
		return h, err
	}
	h.ID = node.ID{PCI: pf, VF: number, Aux: at.Aux}
	h.GUID, h.Function = guid, at.PCI
	return h, nil
}

// parentOf returns the PF of a PCI function and the function's number there. Both are empty if it is
// no VF: a virtual machine, too, sees a VF that it was given as a whole device.
func parentOf(sys fs.FS, pci string) (pf, number string, err error) {
	target, err := fs.ReadLink(sys, path.Join("bus/pci/devices", pci, "physfn"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("find the PF of %s: %w", pci, err)
	}
	pf = path.Base(target)
	for n := 0; ; n++ {
		vf, err := VF(sys, pf, strconv.Itoa(n))
		if err != nil {
			return "", "", fmt.Errorf("find %s among the VFs of %s: %w", pci, pf, err)
		}
		if vf == pci {
			return pf, strconv.Itoa(n), nil
		}
	}
}

// VF returns the PCI address of a PF's VF with a number. Without such a VF it is fs.ErrNotExist.
func VF(sys fs.FS, pf, number string) (string, error) {
	target, err := fs.ReadLink(sys, path.Join("bus/pci/devices", pf, "virtfn"+number))
	return path.Base(target), err
}

// RDMAOf returns the RDMA device of a PCI function that is in the namespace whose /sys this is. Without
// one it is fs.ErrNotExist.
func RDMAOf(sys fs.FS, pci string) (string, error) {
	entries, err := fs.ReadDir(sys, path.Join("bus/pci/devices", pci, "infiniband"))
	if err == nil && len(entries) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return "", fmt.Errorf("find the RDMA device of %s: %w", pci, err)
	}
	return entries[0].Name(), nil
}

// AddressOf returns where the hardware of an HCA sits now. Without a VF of its number it is fs.ErrNotExist.
func AddressOf(sys fs.FS, id node.ID) (BusAddress, error) {
	at := BusAddress{PCI: id.PCI, Aux: id.Aux}
	if id.VF == "" {
		return at, nil
	}
	var err error
	if at.PCI, err = VF(sys, id.PCI, id.VF); err != nil {
		return BusAddress{}, fmt.Errorf("find VF %s of %s: %w", id.VF, id.PCI, err)
	}
	return at, nil
}

// VerbsAt returns those of a list of uverbs devices that are at the place of an HCA: none if its PF has no
// VF of that number any more, and those of others, too, where several HCAs are on one function.
func VerbsAt(sys fs.FS, list []Owner, id node.ID) ([]Owner, error) {
	at, err := AddressOf(sys, id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(slices.Clone(list), func(o Owner) bool { return o.Address != at }), err
}

// VFs returns how many VFs a PCI function has now, and how many it can have; of one without SR-IOV
// both are 0.
func VFs(sys fs.FS, pci string) (now, total int, err error) {
	for _, f := range []struct {
		name string
		into *int
	}{{"sriov_numvfs", &now}, {"sriov_totalvfs", &total}} {
		text, err := read(sys, path.Join("bus/pci/devices", pci, f.name))
		if errors.Is(gone(err), fs.ErrNotExist) {
			return 0, 0, nil
		}
		if err == nil {
			*f.into, err = strconv.Atoi(text)
		}
		if err != nil {
			return 0, 0, fmt.Errorf("count the VFs of %s: %w", pci, err)
		}
	}
	return now, total, nil
}
