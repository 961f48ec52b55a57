package environment

import (
	"net/netip"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/step"
	"gresnet/lib/link/inet"
)

// exports returns the variables that the job's programs see. The GIDs that an interface brings with
// it are in their tables by now (step.Link waited for them), at the places that they keep.
func (l Lease) exports() ([]variable, error) {
	export := withoutHook(l.Host.Config.Environment.Export, mellanoxHook)
	var all []hca
	for _, h := range l.HCAs {
		all = append(all, hca{Name: h.Name, NUMA: h.NUMA, GPU: h.GPU, Slot: h.ID.IsSlot(), Ports: portsOf(h)})
	}
	if slices.ContainsFunc(l.HCAs, func(h step.HCA) bool { return len(h.PKeys) > 0 }) {
		export = with(export, config.NCCLPKey, config.UCXPKey, config.OpenIBPKey)
	}
	slots := slices.ContainsFunc(all, func(h hca) bool { return h.Slot })
	if !l.Host.TellsGIDs() && !slots {
		return variablesOf(all, export), nil
	}
	err := l.World.WithHCAs(l.Mode, func(v *scan.View) error {
		for i, h := range l.HCAs {
			if err := fillGIDs(v, h, all[i].Ports); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if slots {
		export = with(export, config.NCCLGIDIndex, config.UCXGIDIndex)
	}
	return variablesOf(all, export), nil
}

// with adds the variables without which a program would use a GID of the node's own, or of another
// job's slot, or a partition that is not the job's.
func with(export []string, names ...string) []string {
	export = slices.Clone(export)
	for _, name := range names {
		if !slices.Contains(export, name) {
			export = append(export, name)
		}
	}
	return export
}

func portsOf(h step.HCA) (ports []port) {
	for _, p := range h.Ports {
		ports = append(ports, portOf(h, p))
	}
	return ports
}

// childOf returns the interface that a slot has for a port, or nil.
func childOf(h step.HCA, port uint32) *step.Child {
	i := slices.IndexFunc(h.Children, func(c *step.Child) bool { return c.Port == port })
	if i < 0 {
		return nil
	}
	return h.Children[i]
}

// portOf returns a port as it was before the first change: an interface that has just arrived is
// still coming up, and its port with it.
func portOf(h step.HCA, p scan.Port) port {
	out := port{Num: p.Num, Active: p.State == "ACTIVE", RoCE: p.LinkLayer == node.Ethernet}
	if k, is := h.PKeys[p.Num]; is {
		out.PKey = &k
	}
	if h.Ready != nil && p.Interface != nil {
		out.Interface = portInterface{Name: p.Interface.Name, Ready: h.Ready[p.Num]}
		return out
	}
	if c := childOf(h, p.Num); c != nil {
		reaches := func(a netip.Addr) bool { return !a.IsLinkLocalUnicast() }
		out.Interface = portInterface{Name: c.Name, Ready: slices.ContainsFunc(c.Addresses, reaches)}
		return out
	}
	i := slices.IndexFunc(h.Interfaces, func(s *step.Settings) bool { return s.Port == p.Num })
	if i >= 0 && !h.Keep {
		s := h.Interfaces[i].Settings
		out.Interface = portInterface{Name: s.Name, Ready: s.Up && slices.ContainsFunc(s.Addresses, inet.Address.Reachable)}
	}
	return out
}

// fillGIDs fills in the present GIDs of an HCA's RoCE ports.
func fillGIDs(v *scan.View, h step.HCA, ports []port) error {
	for i, p := range h.Ports {
		if !ports[i].RoCE || p.Interface == nil {
			continue
		}
		d, err := v.Find(h.ID)
		if err != nil {
			return err
		}
		name, want := p.Interface.Name, h.RoCEv2[p.Num]
		c := childOf(h, p.Num)
		if c != nil {
			name, want = c.Name, gidsOf(c.Addresses)
		}
		entries, err := awaitRoCEv2(v, d, p.Num, name, want)
		if err != nil {
			return err
		}
		if c != nil {
			// Interfaces of other namespaces may have the name, too.
			entries = slices.DeleteFunc(entries, func(e sysfs.Entry) bool { return !slices.Contains(want, e.GID) })
		}
		for _, e := range entries {
			ports[i].GIDs = append(ports[i].GIDs, gid{Index: e.Index, Addr: e.GID})
		}
	}
	return nil
}

// gidsOf returns the GIDs that addresses have.
func gidsOf(addresses []netip.Addr) (gids []netip.Addr) {
	for _, a := range addresses {
		gids = append(gids, netip.AddrFrom16(a.As16()))
	}
	return gids
}

// awaitRoCEv2 returns a port's GIDs for RoCE v2 when all former ones are there again, or after a
// second. The kernel adds an address for v1 first, and step.Link has waited only for that
// (roce_gid_mgmt.c:update_gid).
func awaitRoCEv2(v *scan.View, d scan.Device, port uint32, name string, want []netip.Addr) ([]sysfs.Entry, error) {
	var entries []sysfs.Entry
	_, err := v.Link.Budget.Until(poll.RoCEv2, func() (_ bool, err error) {
		entries, err = v.RoCEv2(d, port, name)
		missing := slices.ContainsFunc(want, func(gid netip.Addr) bool {
			return !slices.ContainsFunc(entries, func(e sysfs.Entry) bool { return e.GID == gid })
		})
		return !missing, err
	})
	return entries, err
}
