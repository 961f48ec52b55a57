package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/source"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/part"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/state"
)

// Access returns how a job gets its HCAs: with or without a network of its own, and with which device nodes.
func (n *Host) Access(j job.Job) config.Access {
	access := n.Config.Access
	access.Isolation = source.Isolation(n.Config, j)
	cpus, _ := sysfs.CPUs(n.Sys) // if they cannot be counted, no job has all of them
	access.CM = config.CMNo
	if source.CM(n.Config, j, cpus) {
		access.CM = config.CMYes
	}
	return access
}

// Look reads the node for a job. It changes nothing and needs no lock.
type Look struct {
	Host      *Host
	World     *world.World
	CanMove   func() (func(link.Interface) bool, error) // tells which of the node's interfaces jobs can get
	lifelines []lifeline                                // where the node itself must be reached, and what it must reach
	unknown   []error                                   // what cannot be told of these: then no interface moves
	storage   []storage                                 // what the node has from elsewhere; nil: not read yet
}

// World returns the node, whose root namespace is ns, as the steps of a job's lease find it. RDMA-CM's settings are
// left out: to read them makes folders.
func (n *Host) World(ctx context.Context, ns *netns.NS, dir state.Lease, job uint32) *world.World {
	return &world.World{Given: world.Given{
		Root: ns, Sys: n.Sys, Dev: n.Dev, Guard: n.Guard, Table: n.Table(), Locks: n.State.Locks(),
		Dir: dir, Job: job, Budget: poll.Budget{Context: ctx},
		Notice: func(format string, a ...any) { n.Notice(job, format, a...) },
	}}
}

// LookIn returns a look at the node for the job that a world has.
func (n *Host) LookIn(w *world.World) *Look { return &Look{Host: n, World: w, CanMove: n.canMove} }

// LookFor opens a look at the node for a job, which has a lease or has none.
func (n *Host) LookFor(ctx context.Context, job uint32) (l *Look, done func(), err error) {
	host, err := netns.Current()
	if err != nil {
		return nil, nil, err
	}
	w := n.World(ctx, host, n.State.Lease(job), job)
	return n.LookIn(w), func() { w.Close(); host.Close() }, nil
}

// Read looks at what was claimed, before anything of it is changed.
func (l *Look) Read(j job.Job, access config.Access, p Picked) (mode rdma.Mode, hcas []step.HCA, err error) {
	defer l.Host.Time("read what the moves lose")()
	devices := access.Isolation == config.IsolateDevices
	l.lookForLifelines(p)
	err = l.World.OnHost(func(v *scan.View) (err error) {
		if mode, err = v.Mode(); err != nil {
			return err
		}
		if devices && mode == rdma.Exclusive {
			err := errors.New(`isolation = "devices" is for the shared RDMA netns mode, and the node is in exclusive mode`)
			return hint.With(err, "GN195 leave isolation out of gresnet.toml, or put the node into shared mode: [rdma] mode")
		}
		return v.Link.Once(func() error {
			v.Link.About(interfaces(v, p.Entries)...)
			for _, e := range p.Entries {
				e.Keep = e.Keep || devices
				if e, err = part.Of(e.Kind()).Decide(l.Host.Config, j, e); err != nil {
					return err
				}
				h, err := l.ReadHCA(v, mode, e, devices)
				if err == nil && devices {
					h.Ready, err = ready(v, h.Ports)
				}
				if err != nil {
					return fmt.Errorf("claim %s for job %d: %w", e.HCA.Name, l.World.Job, err)
				}
				hcas = append(hcas, h)
			}
			if err := l.Apart(v, hcas); err != nil {
				return fmt.Errorf("claim HCAs for job %d: %w", l.World.Job, err)
			}
			nameChildren(hcas)
			l.readCounters(v, hcas)
			return nil
		})
	})
	if err != nil {
		return "", nil, err
	}
	return mode, hcas, l.Host.locate(j, p, hcas)
}

// interfaces returns the indices of the entries' interfaces, as far as they can be found.
func interfaces(v *scan.View, entries []gres.Entry) (indices []int) {
	for _, e := range entries {
		d, err := v.Find(e.HCA.ID)
		if err != nil {
			continue
		}
		ports, _ := v.Ports(d) // whoever needs them says what is wrong
		for _, p := range ports {
			if p.Interface != nil && !slices.Contains(indices, p.Interface.Index) {
				indices = append(indices, p.Interface.Index)
			}
		}
	}
	return indices
}

// ReadHCA reads an entry's HCA as it is before a job's lease changes it. stays says that the job stays in the node's
// network. An error says why no job can have the HCA.
func (l *Look) ReadHCA(v *scan.View, mode rdma.Mode, e gres.Entry, stays bool) (step.HCA, error) {
	d, err := l.findUsable(v, mode, e)
	if err != nil {
		return step.HCA{}, err
	}
	h := step.HCA{ID: e.HCA.ID, Name: d.Name, Keep: e.Keep}
	if mode == rdma.Exclusive {
		if h.CM, err = l.World.ReadCM(d.Name); err != nil {
			return step.HCA{}, err
		}
	}
	if h.Ports, err = v.Ports(d); err != nil {
		return step.HCA{}, err
	}
	if h.Access, err = l.readAccess(v, d, e, h.Ports); err != nil {
		return step.HCA{}, err
	}
	kind := part.Of(e.Kind())
	err = kind.Read(&part.Reading{World: l.World, View: v, Mode: mode, Entry: e, Device: d, Stays: stays, HCA: &h})
	if err != nil || e.Slot != nil {
		return h, err
	}
	if h.RoCEv2, err = l.readRoCEv2(v, d, h.Ports); err != nil {
		return step.HCA{}, err
	}
	for _, p := range h.Ports {
		if p.Interface == nil || !h.Changes(mode, p.Interface.ID) {
			continue
		}
		s, err := l.readInterface(v, mode, &h, e, d, p)
		if err != nil {
			return step.HCA{}, err
		}
		h.Interfaces = append(h.Interfaces, s)
	}
	return h, nil
}

// readAccess reads who may open an HCA's device nodes, and the state of its ports if the site watches that. For a slot it
// reads only the nodes.
func (l *Look) readAccess(v *scan.View, d scan.Device, e gres.Entry, ports []scan.Port) (*step.Access, error) {
	a, err := l.Host.readAccess(d)
	if err != nil || e.Slot != nil {
		return &step.Access{ID: e.HCA.ID, Name: d.Name, Nodes: a.Nodes}, err
	}
	if health := l.Host.Config.Health.Port; health != config.HealthOff {
		a.Health, a.Ports = health, v.SignalsOf(d, ports)
	}
	return a, nil
}

// readAccess reads who may open an HCA's device nodes when no job has it.
func (n *Host) readAccess(d scan.Device) (*step.Access, error) {
	a, err := step.ReadAccess(n.Dev, d)
	if err == nil && n.Config.Access.Host == config.Closed {
		a.KeepRestricted()
	}
	return a, err
}

// readInterface reads what the interface of a port has, if the node can do without it.
func (l *Look) readInterface(v *scan.View, mode rdma.Mode, h *step.HCA, e gres.Entry, d scan.Device, p scan.Port) (*step.Settings, error) {
	if err := survives(e.Keep, d, p.Interface.Name); err != nil {
		return nil, err
	}
	if err := othersSurvive(v, d, p.Interface); err != nil {
		return nil, err
	}
	list, err := v.Link.List()
	if err == nil {
		err = isKnowable(*p.Interface, list)
	}
	if err != nil {
		return nil, err
	}
	s, err := v.Link.Settings(p.Interface.Index)
	if err != nil {
		return nil, err
	}
	if step.GoesAlong(mode, p.Interface.ID) {
		if err := v.Link.Remade(p.Interface.Index, &s); err != nil {
			return nil, err
		}
	}
	m, err := link.ManagerOf(l.Host.Run, p.Interface.Index)
	if err != nil {
		return nil, err
	}
	if m.Configured {
		s.Manager = m.Name
	}
	// Also if the interface stays on the node: it is away for a moment while the kernel makes it again.
	if !e.Take {
		if err := l.protectNode(v, p.Interface.Index, s); err != nil {
			return nil, err
		}
	}
	gids, err := gidsOf(v, d, p, s)
	if err != nil {
		return nil, err
	}
	return &step.Settings{Of: d.ID, Port: p.Num, Interface: p.Interface.ID, Settings: s, GIDs: gids}, nil
}

// gidsOf returns the GIDs that a port has for the interface's addresses. They go with the interface, and the run waits for
// them where it arrives.
func gidsOf(v *scan.View, d scan.Device, p scan.Port, s snapshot.Settings) ([]netip.Addr, error) {
	if p.LinkLayer != node.Ethernet {
		return nil, nil
	}
	var own []netip.Addr
	for _, a := range s.Addresses {
		own = append(own, netip.AddrFrom16(a.Addr().Addr().As16()))
	}
	missing, err := v.MissingGIDs(d, p.Num, own)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(own, func(gid netip.Addr) bool { return slices.Contains(missing, gid) }), nil
}

// TellsGIDs tells whether the site exports a GID's index. Without that, gresnet reads no GID table: it has hundreds of
// entries.
func (n *Host) TellsGIDs() bool {
	export := n.Config.Environment.Export
	return slices.Contains(export, config.NCCLGIDIndex) || slices.Contains(export, config.UCXGIDIndex)
}

// ready tells for each port whose interface stays on the node whether programs can reach other hosts by it.
func ready(v *scan.View, ports []scan.Port) (map[uint32]bool, error) {
	all := map[uint32]bool{}
	for _, p := range ports {
		if p.Interface == nil {
			continue
		}
		reachable, err := v.Link.IsReachable(p.Interface.Index)
		if err != nil {
			return nil, err
		}
		all[p.Num] = p.Interface.Up && reachable
	}
	return all, nil
}

// readRoCEv2 reads the GIDs that a port must have again after the moves. It leaves out link-local GIDs, whose number may
// differ then: the port has one of its own.
func (l *Look) readRoCEv2(v *scan.View, d scan.Device, ports []scan.Port) (map[uint32][]netip.Addr, error) {
	if !l.Host.TellsGIDs() {
		return nil, nil
	}
	all := map[uint32][]netip.Addr{}
	for _, p := range ports {
		if p.LinkLayer != node.Ethernet || p.Interface == nil {
			continue
		}
		entries, err := v.RoCEv2(d, p.Num, p.Interface.Name)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if !e.GID.IsLinkLocalUnicast() {
				all[p.Num] = append(all[p.Num], e.GID)
			}
		}
	}
	return all, nil
}

// nameChildren gives the interfaces that gresnet makes for a job names of their own. The first has
// the name of the interface below it, as one that moves to the job has.
func nameChildren(hcas []step.HCA) {
	taken := map[string]bool{}
	for _, h := range hcas {
		for _, s := range h.Interfaces {
			taken[s.Settings.Name] = taken[s.Settings.Name] || !h.Keep
		}
	}
	for _, h := range hcas {
		for _, c := range h.Children {
			name := c.Name
			for n := 1; taken[name]; n++ {
				suffix := fmt.Sprintf("_%d", n)
				name = c.Name[:min(len(c.Name), link.LongestName-len(suffix))] + suffix
			}
			c.Name, c.Link.Name, taken[name] = name, name, true
		}
	}
}
