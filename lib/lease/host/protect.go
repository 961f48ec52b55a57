package host

import (
	"fmt"
	"net/netip"

	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/mount"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/plain"
)

// takeHint says what lets a job have an interface that the node needs.
const takeHint = `GN194 if jobs are to have it all the same, set node = "take" in its [[hca]]; interface = "keep" leaves the interface where it is`

// protectNode refuses an interface that the node itself cannot do without: that of its
// default route, one with the address by which Slurm knows the node, the way to
// slurmctld, and the way to a file system or a disk that the node has from elsewhere.
func (l *Look) protectNode(v *scan.View, index int, s snapshot.Settings) error {
	defaultRoute, err := v.Link.CarriesDefaultRoute(index, s)
	if err != nil {
		return err
	}
	if defaultRoute {
		return hint.With(fmt.Errorf("the node's default route needs %s", s.Name), takeHint)
	}
	for _, line := range l.lifelines {
		if err := line.protect(v, index, s.Name); err != nil {
			return err
		}
	}
	if err := l.protectStorage(v, index, s.Name); err != nil {
		return err
	}
	return l.protectUnknown(s.Name)
}

// Needs tells whether the node cannot do without an interface, or a move would lose what cannot be given back.
func (l *Look) Needs(v *scan.View, i link.Interface) bool {
	s, err := v.Link.Settings(i.Index)
	return err != nil || l.protectNode(v, i.Index, s) != nil
}

// protect refuses an interface that has the lifeline's address, or by which the node reaches it.
func (line lifeline) protect(v *scan.View, index int, name string) error {
	carries, err := v.Link.Carries(index, line.addr)
	if err != nil {
		return err
	}
	if carries {
		return hint.With(fmt.Errorf("%s has the address of %s", name, line.what), takeHint)
	}
	leads, err := v.Link.Leads(index, line.addr)
	if err != nil {
		return err
	}
	if leads && !line.own {
		return hint.With(fmt.Errorf("the node reaches %s through %s", line.what, name), takeHint)
	}
	return nil
}

// protectStorage refuses an interface by which the node has an iSCSI disk or a mounted file system.
func (l *Look) protectStorage(v *scan.View, index int, name string) error {
	if err := l.findStorage(); err != nil {
		return err
	}
	for _, s := range l.storage {
		leads, err := v.Link.Leads(index, s.from)
		if err != nil {
			return err
		}
		if leads {
			return hint.With(fmt.Errorf("the node has %s from %s through %s", s.what, s.from, name), takeHint)
		}
	}
	return nil
}

// storage is a disk or a mounted file system that the node has from elsewhere.
type storage struct {
	what string // for people
	from netip.Addr
}

// findStorage lists the node's storage, once for all interfaces: a node may have thousands of mounts.
func (l *Look) findStorage() error {
	if l.storage != nil {
		return nil
	}
	servers, err := mount.Servers()
	if err != nil {
		return err
	}
	targets, err := sysfs.Targets(l.World.Sys)
	if err != nil {
		return err
	}
	l.storage = []storage{}
	for _, addr := range targets {
		l.storage = append(l.storage, storage{"an iSCSI disk", addr})
	}
	for _, addr := range sysfs.NVMeTargets(l.World.Sys) {
		l.storage = append(l.storage, storage{"an NVMe disk", addr})
	}
	for _, server := range servers {
		l.storage = append(l.storage, storage{plain.Name(server.Point), server.Addr})
	}
	return nil
}
