package host

import (
	"fmt"
	"net/netip"
	"strconv"

	"gresnet/lib/hint"
	"gresnet/lib/link"
	"gresnet/lib/mount"
	"gresnet/lib/scan"
	"gresnet/lib/sysfs"
)

// protectNode refuses an interface that the node itself cannot do without: that of its
// default route, one with the address by which Slurm knows the node, the way to
// slurmctld, and the way to a file system that the node has mounted.
func (l *Look) protectNode(v *scan.View, index int, s link.Settings) error {
	const named = `if that is meant to be moved, say node = "take" in its [[hca]]; interface = "keep" leaves the interface where it is`
	uplink, err := v.Link.CarriesDefaultRoute(index, s)
	if err != nil {
		return err
	}
	if uplink {
		return hint.With(fmt.Errorf("the node's default route needs %s", s.Name), named)
	}
	for _, line := range l.lifelines {
		carries, err := v.Link.Carries(index, line.addr)
		if err != nil {
			return err
		}
		if carries {
			return hint.With(fmt.Errorf("%s has the address of %s", s.Name, line.what), named)
		}
		leads, err := v.Link.Leads(index, line.addr)
		if err != nil {
			return err
		}
		if leads && !line.own {
			return hint.With(fmt.Errorf("the node reaches %s through %s", line.what, s.Name), named)
		}
	}
	servers, err := mount.Servers()
	if err != nil {
		return err
	}
	targets, err := sysfs.Targets(l.World.Sys)
	if err != nil {
		return err
	}
	keep := func(what string, from netip.Addr) error {
		leads, err := v.Link.Leads(index, from)
		if err != nil {
			return err
		}
		if leads {
			return hint.With(fmt.Errorf("the node has %s from %s through %s", what, from, s.Name), named)
		}
		return nil
	}
	for _, addr := range targets {
		if err := keep("an iSCSI disk", addr); err != nil {
			return err
		}
	}
	for _, server := range servers {
		if err := keep(strconv.Quote(server.Point), server.Addr); err != nil {
			return err
		}
	}
	return nil
}
