// Package sriov makes a PF's VFs, and reads and sets what the PF does for each of them. It knows a
// PF by its PCI address, and a VF by its number there.
package sriov

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"gresnet/lib/base/hint"
)

// Link is the network interface of a PF. VFs are set by it.
type Link struct {
	Name       string
	Index      int
	InfiniBand bool
}

// ErrNoLink means that a PF has no network interface here.
var ErrNoLink = errors.New("no network interface")

// FindLink finds the interface of a PF. Of several it is the oldest: children of IPoIB's come later. In switchdev
// mode the representors of its VFs are there, too.
func FindLink(sys fs.FS, pf string) (Link, error) {
	dir := path.Join("bus/pci/devices", pf, "net")
	entries, err := fs.ReadDir(sys, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Link{}, fmt.Errorf("find the interface of %s: %w", pf, err)
	}
	var all []Link
	for _, e := range entries {
		index, err := number(sys, path.Join(dir, e.Name(), "ifindex"))
		if err != nil {
			continue // it goes at this moment
		}
		kind, err := number(sys, path.Join(dir, e.Name(), "type"))
		if err != nil || isRepresentor(sys, path.Join(dir, e.Name())) {
			continue
		}
		const infiniband = 32 // ARPHRD_INFINIBAND
		all = append(all, Link{e.Name(), index, kind == infiniband})
	}
	if len(all) == 0 {
		return Link{}, hint.With(fmt.Errorf("find the interface of %s: %w", pf, ErrNoLink), "GN334 VFs are set by their PF's interface: see whether its driver is loaded and the interface is on the node")
	}
	return slices.MinFunc(all, func(a, b Link) int { return a.Index - b.Index }), nil
}

func number(sys fs.FS, file string) (int, error) {
	text, err := fs.ReadFile(sys, file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// Fits returns an error for a PF that cannot have, or does not have, as many VFs as it should.
// now and total are as sysfs.VFs returns them.
func Fits(pf string, count, now, total int) error {
	switch {
	case total == 0:
		return hint.With(fmt.Errorf("split %s: it cannot have VFs", pf), "GN335 switch SR-IOV on in the firmware of card and machine, and see whether its driver is loaded")
	case count > total:
		return hint.With(fmt.Errorf("split %s into %d VFs: it can have %d", pf, count, total), "GN336 lower count in [[hca]], or raise the number in the card's firmware")
	case 0 < now && now < count:
		return hint.With(fmt.Errorf("split %s into %d VFs: it has %d", pf, count, now), "GN337 the kernel changes their number from 0 only: without jobs, echo 0 >/sys/bus/pci/devices/"+pf+"/sriov_numvfs, and reboot")
	}
	return nil
}

// InSwitchdev tells whether the eswitch of a PF is in switchdev mode: then the VLANs and rates of its VFs are those of
// their representors. Most drivers have no devlink device, and so no such mode.
func InSwitchdev(pf string) bool {
	d, err := netlink.DevLinkGetDeviceByName("pci", pf)
	return err == nil && d.Attrs.Eswitch.Mode == "switchdev"
}
