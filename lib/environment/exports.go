package lease

import (
	"net/netip"
	"slices"
	"time"

	"gresnet/lib/address"
	"gresnet/lib/clock"
	"gresnet/lib/environment"
	"gresnet/lib/host"
	"gresnet/lib/plan"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/sysfs"
)

// exports is what the job's programs are exports. All steps are done by now: the GIDs
// that an interface brings with it have been waited for (step.Link), and have
// the places in their tables that they keep.
func (l *open) exports(mode rdma.Mode, hcas []plan.HCA) ([]environment.Variable, error) {
	export := l.node.Config.Environment.Export
	var all []environment.HCA
	for _, h := range hcas {
		told := environment.HCA{Name: h.Name, NUMA: h.NUMA, GPU: h.GPU}
		for _, p := range h.Ports {
			told.Ports = append(told.Ports, portOf(h, p))
		}
		all = append(all, told)
	}
	if !l.node.TellsGIDs() {
		return environment.Of(all, export), nil
	}
	err := l.world.WithHCAs(mode, func(v *scan.View) error {
		for i, h := range hcas {
			if err := fillGIDs(v, h, all[i].Ports); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return environment.Of(all, export), nil
}

// portOf is a port as it was before the first change: an interface that has just
// arrived is still coming up, and its port with it.
func portOf(h plan.HCA, p scan.Port) environment.Port {
	out := environment.Port{Num: p.Num, Active: p.State == "ACTIVE", RoCE: p.LinkLayer == host.Ethernet}
	if h.Ready != nil && p.Interface != nil {
		out.Interface = environment.Interface{Name: p.Interface.Name, Ready: h.Ready[p.Num]}
		return out
	}
	i := slices.IndexFunc(h.Interfaces, func(s *step.Settings) bool { return s.Port == p.Num })
	if i >= 0 && !h.Keep {
		s := h.Interfaces[i].Settings
		out.Interface = environment.Interface{Name: s.Name, Ready: s.Up && slices.ContainsFunc(s.Addresses, address.Address.Reachable)}
	}
	return out
}

// fillGIDs fills in the GIDs of an HCA's RoCE ports, where they are now.
func fillGIDs(v *scan.View, h plan.HCA, ports []environment.Port) error {
	for i, p := range h.Ports {
		if !ports[i].RoCE || p.Interface == nil {
			continue
		}
		d, err := v.Find(h.ID)
		if err != nil {
			return err
		}
		entries, err := awaitRoCEv2(v, d, p, h.RoCEv2[p.Num])
		if err != nil {
			return err
		}
		for _, e := range entries {
			ports[i].GIDs = append(ports[i].GIDs, environment.GID{Index: e.Index, Addr: e.GID})
		}
	}
	return nil
}

// awaitRoCEv2 is a port's GIDs for RoCE v2 when all that were there are there
// again, or a second is over. The kernel adds an address for v1 first, and that
// is what the interface's arrival was waited for (roce_gid_mgmt.c:update_gid).
func awaitRoCEv2(v *scan.View, d scan.Device, p scan.Port, want []netip.Addr) ([]sysfs.Entry, error) {
	for begun := time.Now(); ; clock.Sleep(begun, time.Millisecond) {
		entries, err := v.RoCEv2(d, p.Num, p.Interface.Name)
		if err != nil || time.Since(begun) > time.Second {
			return entries, err
		}
		missing := slices.ContainsFunc(want, func(gid netip.Addr) bool {
			return !slices.ContainsFunc(entries, func(e sysfs.Entry) bool { return e.GID == gid })
		})
		if !missing {
			return entries, nil
		}
	}
}
