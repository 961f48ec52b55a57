package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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
	"gresnet/lib/lease/plan"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
	"gresnet/lib/state"
)

// Access is what a job gets of its HCAs.
func (n *Host) Access(j job.Job) config.Access {
	access := n.Config.Access
	access.Isolation = source.Isolation(n.Config, j)
	cpus, _ := sysfs.CPUs(n.Sys) // if nobody can count them, no job has all of them
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
	storage   []storage                                 // what the node has from elsewhere; nil: nobody has looked
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
func (l *Look) Read(j job.Job, access config.Access, p Picked) (mode rdma.Mode, hcas []plan.HCA, err error) {
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

// interfaces returns the indices of those of some entries, as far as they can be found.
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

// ReadHCA returns what a job's lease of an entry changes, as it is now, in a job that stays in the node's
// network or not. An error is why no job can have it.
func (l *Look) ReadHCA(v *scan.View, mode rdma.Mode, e gres.Entry, stays bool) (plan.HCA, error) {
	d, err := l.findUsable(v, mode, e)
	if err != nil {
		return plan.HCA{}, err
	}
	h := plan.HCA{ID: e.HCA.ID, Name: d.Name, Keep: e.Keep}
	if mode == rdma.Exclusive {
		if h.CM, err = l.World.ReadCM(d.Name); err != nil {
			return plan.HCA{}, err
		}
	}
	if h.Ports, err = v.Ports(d); err != nil {
		return plan.HCA{}, err
	}
	if h.Access, err = l.readAccess(v, d, e, h.Ports); err != nil {
		return plan.HCA{}, err
	}
	kind := part.Of(e.Kind())
	err = kind.Read(&part.Reading{World: l.World, View: v, Mode: mode, Entry: e, Device: d, Stays: stays, HCA: &h})
	if err != nil || e.Slot != nil {
		return h, err
	}
	if h.RoCEv2, err = l.readRoCEv2(v, d, h.Ports); err != nil {
		return plan.HCA{}, err
	}
	for _, p := range h.Ports {
		if p.Interface == nil || !h.Changes(mode, p.Interface.ID) {
			continue
		}
		s, err := l.readInterface(v, mode, &h, e, d, p)
		if err != nil {
			return plan.HCA{}, err
		}
		h.Interfaces = append(h.Interfaces, s)
	}
	return h, nil
}

// joined returns why an HCA is not there whose interface is in a bond: mlx5 makes one RDMA device of both functions of a
// card, a RoCE LAG, and the other function has it (mlx5/core/lag/lag.c:mlx5_do_bond). It returns nil in any other case.
func joined(v *scan.View, id node.ID) error {
	own, err := v.Link.OfFunction(id.PCI)
	if err != nil || own.Master == 0 {
		return nil
	}
	list, err := v.Link.List()
	if err != nil {
		return nil
	}
	for _, other := range list {
		if other.Master != own.Master || other.Index == own.Index {
			continue
		}
		if hca, err := v.HCAOf(other.ID); err == nil && hca != (node.ID{}) {
			err := fmt.Errorf("%s has no RDMA device of its own: its interface %s is in a bond with %s, which has the RDMA device of both (RoCE LAG)", id, own.Name, other.Name)
			return hint.With(err, "GN868 have the site's list match the HCA of "+other.Name+" alone")
		}
	}
	return nil
}

// findUsable finds the RDMA device of an entry, if programs can use it and the kernel does not.
func (l *Look) findUsable(v *scan.View, mode rdma.Mode, e gres.Entry) (scan.Device, error) {
	d, err := v.Find(e.HCA.ID)
	if lag := joined(v, e.HCA.ID); errors.Is(err, scan.ErrNotFound) && lag != nil {
		return scan.Device{}, lag
	}
	if err != nil {
		return scan.Device{}, hint.With(err, "GN196 compare `rdma dev` with the configuration; is its driver loaded, or is it in another namespace?")
	}
	if err := v.MAD(&d); err != nil {
		return scan.Device{}, err
	}
	if len(d.Chars) == 0 {
		err := fmt.Errorf("%s has no uverbs device, without which no program can use it", d.Name)
		return scan.Device{}, hint.With(err, "GN197 load ib_uverbs")
	}
	if d.Driver == "hfi1" && !slices.ContainsFunc(d.Chars, func(c scan.Char) bool { return c.Kind == "hfi1" }) {
		err := fmt.Errorf("%s has another name than its device node /dev/hfi1_N", d.Name)
		return scan.Device{}, hint.With(err, "GN712 leave it its name: NAME_KERNEL in udev's 60-rdma-persistent-naming.rules")
	}
	twins, err := v.Twins(d)
	if err != nil {
		return scan.Device{}, err
	}
	if len(twins) > 0 {
		err := fmt.Errorf("%s and %s have one GUID, %s, by which nobody can tell them apart", d.Name, strings.Join(twins, ", "), d.ID)
		return scan.Device{}, hint.With(err, "GN452 remove all but one, `rdma link delete`")
	}
	return d, checkIdle(v, d, mode == rdma.Exclusive || !e.Keep, mode, e.Take)
}

// readAccess reads who may open an HCA's device nodes, and the state of its ports if the site
// watches that. Of a slot it reads nothing: the node table has it.
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
		a.KeepClosed()
	}
	return a, err
}

// readInterface reads what the interface of a port has, if the node can do without it.
func (l *Look) readInterface(v *scan.View, mode rdma.Mode, h *plan.HCA, e gres.Entry, d scan.Device, p scan.Port) (*step.Settings, error) {
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
	if plan.GoesAlong(mode, p.Interface.ID) {
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
	// Also if the interface stays on the node: it is away for a moment while the kernel makes it anew.
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

// isKnowable returns an error for an interface that nothing tells from another one of the node once
// a job has changed its MAC: neither has a permanent one.
func isKnowable(i link.Interface, list []link.Interface) error {
	for _, o := range list {
		if o.Index != i.Index && o.ID == i.ID {
			return hint.With(
				fmt.Errorf("%s and %s are both interfaces of %s, and have no permanent MAC that tells them apart", i.Name, o.Name, i.ID),
				"GN199 give each VF a MAC by its PF, `ip link set PF vf N mac`, and have its driver bind it again",
			)
		}
	}
	return nil
}

// survives is an error for an HCA whose RDMA device would end with the move of its interface.
func survives(keep bool, d scan.Device, moved string) error {
	if keep || !rdma.EndsWithInterface(d.Driver) {
		return nil
	}
	err := fmt.Errorf("driver %s ends %s when its interface %s is moved", d.Driver, d.Name, moved)
	return hint.With(err, `GN200 set interface = "keep" in its [[hca]]`)
}

// othersSurvive is an error for an interface that other RDMA devices use, too: they end with its move.
func othersSurvive(v *scan.View, d scan.Device, moved *link.Interface) error {
	others, err := v.Sharing(d, moved.Index)
	if err != nil || len(others) == 0 {
		return err
	}
	err = fmt.Errorf("%s stands on %s, the interface of %s, and ends when that is moved", strings.Join(others, ", "), moved.Name, d.Name)
	return hint.With(err, "GN450 remove it before jobs get the HCA, `rdma link delete`; or leave the HCA out of the mapping")
}

// gidsOf are the GIDs of a port that are there for the interface's addresses.
// They go with the interface and have to be waited for where it arrives.
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

// TellsGIDs tells whether anybody wants to know what is in GID tables, which have
// hundreds of entries.
func (n *Host) TellsGIDs() bool {
	export := n.Config.Environment.Export
	return slices.Contains(export, config.NCCLGIDIndex) || slices.Contains(export, config.UCXGIDIndex)
}

// ready tells of ports whose interfaces stay on the node whether programs can reach others by them.
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

// readRoCEv2 reads the GIDs that must be there again when all is moved. Link-local
// ones may be there in another number: the port has one of its own.
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
func nameChildren(hcas []plan.HCA) {
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
