package environment

import (
	"net/netip"
	"slices"
	"time"

	"gresnet/lib/address"
	"gresnet/lib/clock"
	"gresnet/lib/host"
	"gresnet/lib/plan"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/sysfs"
)

// exports returns the variables that the job's programs see. The GIDs that an interface brings with
// it are in their tables by now (step.Link waited for them), at the places that they keep.
func (l Lease) exports() ([]Variable, error) {
	export := WithoutHook(l.Host.Config.Environment.Export, mellanoxHook)
	var all []HCA
	for _, h := range l.HCAs {
		out := HCA{Name: h.Name, NUMA: h.NUMA, GPU: h.GPU}
		for _, p := range h.Ports {
			out.Ports = append(out.Ports, portOf(h, p))
		}
		all = append(all, out)
	}
	if !l.Host.TellsGIDs() {
		return Of(all, export), nil
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
	return Of(all, export), nil
}

// portOf returns a port as it was before the first change: an interface that has just arrived is
// still coming up, and its port with it.
func portOf(h plan.HCA, p scan.Port) Port {
	out := Port{Num: p.Num, Active: p.State == "ACTIVE", RoCE: p.LinkLayer == host.Ethernet}
	if h.Ready != nil && p.Interface != nil {
		out.Interface = Interface{Name: p.Interface.Name, Ready: h.Ready[p.Num]}
		return out
	}
	i := slices.IndexFunc(h.Interfaces, func(s *step.Settings) bool { return s.Port == p.Num })
	if i >= 0 && !h.Keep {
		s := h.Interfaces[i].Settings
		out.Interface = Interface{Name: s.Name, Ready: s.Up && slices.ContainsFunc(s.Addresses, address.Address.Reachable)}
	}
	return out
}

// fillGIDs fills in the present GIDs of an HCA's RoCE ports.
func fillGIDs(v *scan.View, h plan.HCA, ports []Port) error {
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
			ports[i].GIDs = append(ports[i].GIDs, GID{Index: e.Index, Addr: e.GID})
		}
	}
	return nil
}

// awaitRoCEv2 returns a port's GIDs for RoCE v2 when all former ones are there again, or after a
// second. The kernel adds an address for v1 first, and step.Link has waited only for that
// (roce_gid_mgmt.c:update_gid).
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
