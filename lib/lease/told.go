package lease

import (
	"slices"

	"gresnet/lib/config"
	"gresnet/lib/environment"
	"gresnet/lib/link"
	"gresnet/lib/plan"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/step"
)

// told is what the job's programs are told. All steps are done by now: the GIDs
// that an interface brings with it have been waited for (step.Link), and have
// the places in their tables that they keep.
func (l *open) told(mode rdma.Mode, hcas []plan.HCA) ([]environment.Variable, error) {
	export := l.node.Config.Environment.Export
	var all []environment.HCA
	for _, h := range hcas {
		told := environment.HCA{Name: h.Name, NUMA: h.NUMA, GPU: h.GPU}
		for _, p := range h.Ports {
			told.Ports = append(told.Ports, portOf(h, p))
		}
		all = append(all, told)
	}
	// A table has hundreds of entries: it is read if anybody wants to know.
	if slices.Contains(export, config.NCCLGIDIndex) {
		err := l.world.WithHCAs(mode, func(v *scan.View) error {
			for i, h := range hcas {
				if err := readGIDs(v, h, all[i].Ports); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return environment.Of(all, export), nil
}

// portOf is a port as it was before the first change: an interface that has just
// arrived is still coming up, and its port with it.
func portOf(h plan.HCA, p scan.Port) environment.Port {
	out := environment.Port{Num: p.Num, Active: p.State == "ACTIVE", RoCE: p.LinkLayer == "Ethernet"}
	i := slices.IndexFunc(h.Interfaces, func(s *step.Settings) bool { return s.Port == p.Num })
	if i >= 0 && !h.Keep {
		s := h.Interfaces[i].Settings
		out.Interface = environment.Interface{Name: s.Name, Ready: s.Up && slices.ContainsFunc(s.Addresses, reachable)}
	}
	return out
}

func reachable(m link.Message) bool { return !m.Addr().Addr().IsLinkLocalUnicast() }

// readGIDs fills in the GIDs of an HCA's RoCE ports, where they are now.
func readGIDs(v *scan.View, h plan.HCA, ports []environment.Port) error {
	for i, p := range h.Ports {
		if !ports[i].RoCE || p.Interface == nil {
			continue
		}
		d, err := v.Find(h.ID)
		if err != nil {
			return err
		}
		entries, err := v.RoCEv2(d, p.Num, p.Interface.Name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			ports[i].GIDs = append(ports[i].GIDs, environment.GID{Index: e.Index, Addr: e.GID})
		}
	}
	return nil
}
