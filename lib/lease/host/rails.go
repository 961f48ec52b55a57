package host

import (
	"net/netip"
	"slices"

	"gresnet/lib/hca/scan"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/state/journal"
)

// Rails returns the IPv4 networks of the interfaces that other jobs of the node have, and of those that jobs can get.
func (l *Look) Rails() (all []netip.Prefix, err error) {
	has, err := l.canGet()
	if err != nil {
		return nil, err
	}
	jobs, err := l.Host.Leased()
	for _, job := range jobs {
		if job != l.World.Job {
			has = append(has, l.hadBy(job)...)
		}
	}
	for _, a := range has {
		if to := a.Masked(); to.Addr().Is4() && to.Bits() < 31 && !to.Addr().IsLinkLocalUnicast() && !slices.Contains(all, to) {
			all = append(all, to)
		}
	}
	return all, err
}

// canGet returns the addresses of the interfaces on the node that a job can get.
func (l *Look) canGet() (all []netip.Prefix, err error) {
	moves, err := l.CanMove()
	if err != nil {
		return nil, err
	}
	err = l.World.OnHost(func(v *scan.View) error {
		node, err := jobnet.ReadHost(v.Link.Conn)
		if err != nil {
			return err
		}
		var free []link.Interface
		var indices []int
		for _, i := range node.Interfaces {
			if len(node.Networks[i.Index]) > 0 && moves(i) {
				free, indices = append(free, i), append(indices, i.Index)
			}
		}
		return v.Link.Once(func() error {
			v.Link.About(indices...)
			for _, i := range free {
				if !l.needs(v, i) {
					all = append(all, node.Networks[i.Index]...)
				}
			}
			return nil
		})
	})
	return all, err
}

// hadBy returns the addresses of the interfaces that a job has taken from the node. Of a job that has ended, or
// whose journal does not read, it returns none.
func (l *Look) hadBy(job uint32) (all []netip.Prefix) {
	undoLog, err := journal.Read(l.Host.State.Lease(job).Journal())
	if err != nil {
		return nil
	}
	for _, had := range step.JournaledSettings(undoLog) {
		for _, a := range had.Settings.Addresses {
			all = append(all, a.Addr())
		}
	}
	return all
}
