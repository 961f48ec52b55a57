package step

import (
	"net/netip"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/link"
	"gresnet/lib/network"
)

// HCA is an HCA that a job gets, as host.Look read it before the first change.
type HCA struct {
	ID         node.ID
	Name       string
	Keep       bool      // its interfaces stay on the node
	CM         []rdma.CM // RDMA-CM's settings for it, in exclusive mode
	Access     *Access
	Interfaces []*Settings
	Children   []*Child // the interfaces that gresnet makes for a slot

	Before []Step // what comes before all else, as what a PF does for a VF

	PKeys map[uint32]node.PKeyEntry // where the ports have the slot's P_Key, by port; nil: it has none

	// The job's programs learn these.
	Ports  []scan.Port
	RoCEv2 map[uint32][]netip.Addr // GIDs that reach beyond the link, by port; nil: they are not read
	NUMA   int                     // -1: not known
	GPU    int                     // the nearest of the job's, by Slurm's index; -1: none
	// Ready tells by port whether the interface is up and has an address that others can reach. It
	// is for a job in the node's network, where the interface stays; nil: the job is not there.
	Ready map[uint32]bool
}

// Plan returns the steps by which a job gets its claimed HCAs, in order. It is pure: it reads and
// changes nothing, so a prolog carries out the very plan that gresnet plan shows.
//
// The entries of all that moves lose come before the first move. An RDMA device goes before its
// interface: the interface's arrival makes the GIDs, and on InfiniBand the device's move makes the
// interface again. Device nodes come last, because each move assigns their numbers again. In
// exclusive mode they need no guard: the kernel lets no other network namespace open them
// (rdma_dev_access_netns). An overlay and an uplink, which may be nil, come before the first HCA:
// so a mistake in the site's configuration costs no move. The overlay has the address by which the
// uplink leads.
//
// What a PF does for a VF comes first of all: its driver may refuse it.
//
// A job that only has device nodes of its own (config.IsolateDevices) gets them in the node's
// network: no step moves anything, and all HCAs must have Keep.
func Plan(j job.Job, mode rdma.Mode, access config.Access, uplink *network.Uplink, overlay *network.Overlay, hcas []HCA) []Step {
	var steps []Step
	for _, h := range hcas {
		steps = append(steps, h.Before...)
	}
	if access.Isolation != config.IsolateDevices {
		steps = append(steps, &Namespace{})
	}
	if overlay != nil {
		steps = append(steps, overlay)
	}
	if uplink != nil {
		steps = append(steps, uplink)
	}
	devices := &Devices{Mode: mode, Kinds: access.Kinds(), CM: access.CM == config.CMYes, UID: j.UID, GID: j.GID}
	if mode == rdma.Shared {
		devices.Guard = access.Guard
	}
	var children []Step
	for _, h := range hcas {
		steps = append(steps, keep(mode, h)...)
		for _, c := range h.Children {
			children = append(children, c)
		}
		devices.HCAs = append(devices.HCAs, h.ID)
	}
	steps = append(append(steps, move(mode, hcas)...), children...)
	return append(steps, devices)
}

// Changes tells whether a lease changes an interface of the HCA. It leaves one alone that stays on
// the node, but the RDMA device's move makes an IPoIB interface again.
func (h HCA) Changes(mode rdma.Mode, i link.ID) bool { return !h.Keep || GoesAlong(mode, i) }

// keep returns the steps whose entries keep what the moves of an HCA lose.
func keep(mode rdma.Mode, h HCA) []Step {
	steps := []Step{h.Access}
	for _, s := range changed(mode, h) {
		steps = append(steps, s)
	}
	return steps
}

// move returns the steps that move the HCAs one after the other. While gresnet moves the interfaces
// of one, the kernel already moves the RDMA devices of the next: both take time, and neither waits
// for the other. With IPoIB it must: interfaces that the kernel makes again take names that others
// are about to get.
func move(mode rdma.Mode, hcas []HCA) (steps []Step) {
	var links []Step // of the HCAs before, which are not moved yet
	for i, h := range hcas {
		if i > 0 && (remade(mode, hcas[i-1]) || remade(mode, h)) {
			steps, links = append(steps, links...), nil
		}
		if mode == rdma.Exclusive {
			steps = append(steps, &RDMA{ID: h.ID, Name: netlink.Name(h.Name), CM: h.CM})
		}
		for _, s := range changed(mode, h) {
			links = append(links, &Link{
				Of: h.ID, Port: s.Port, Interface: s.Interface, Name: netlink.Name(s.Settings.Name), Index: s.Settings.Index, Keep: h.Keep,
				Settings: s.Settings, GIDs: s.GIDs, Mode: mode,
			})
		}
	}
	return append(steps, links...)
}

// changed returns the interfaces of an HCA that the lease changes.
func changed(mode rdma.Mode, h HCA) (list []*Settings) {
	for _, s := range h.Interfaces {
		if h.Changes(mode, s.Interface) {
			list = append(list, s)
		}
	}
	return list
}

// remade tells whether the move of an HCA's RDMA device makes an interface again.
func remade(mode rdma.Mode, h HCA) bool {
	return slices.ContainsFunc(h.Interfaces, func(s *Settings) bool { return GoesAlong(mode, s.Interface) })
}

// GoesAlong tells whether the move of an interface's RDMA device makes it again: that of IPoIB goes with
// its RDMA device (ipoib_main.c:ipoib_remove_one).
func GoesAlong(mode rdma.Mode, i link.ID) bool { return mode == rdma.Exclusive && i.Kind == "ipoib" }
