// Package network has the steps that make the job's own network, each with its undo beside it: its
// uplink to the management network, and its overlay between its nodes. They are steps of a lease
// like those in package step, which ranks them all.
package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state/table"
)

// Uplink makes the job's way to the management network. Its undo needs only the address, which
// determines the interface's identity.
type Uplink struct {
	Type    string     `json:"type"` // veth or macvlan
	Address netip.Addr `json:"address"`

	Pool     jobnet.Pool    `json:"-"`
	UID      uint32         `json:"-"` // the user whose processes on the node reach the job
	Settings ports.Settings `json:"-"` // what an automatic one shares with those of other jobs
	Whole    bool           `json:"-"` // the job is reached at all ports that nobody on the node has

	// Clash is why the interface cannot have its name.
	Clash error `json:"-"`

	// Over is the overlay, which the job has before its uplink; nil: it has none. The services of its nodes
	// (Settings.Services), and those at all ports below 1024, are reached by the uplink. With Slurmd, slurmd's port, srun in
	// the job calls each node's slurmd itself.
	// Without it, or if srun is not Called, the job does not reach Slurmds (shut).
	Over    *Overlay `json:"-"`
	Slurmd  int      `json:"-"`
	Slurmds []int    `json:"-"` // all ports of slurmd on the job's nodes
	Called  bool     `json:"-"` // Slurm calls srun in the job, at the job's block of ports
}

// UplinkFrom returns the step of an uplink that only the table still knows.
func UplinkFrom(u table.Uplink) *Uplink {
	return &Uplink{Type: u.Type, Address: u.Address}
}

func (*Uplink) Kind() string     { return "uplink" }
func (s *Uplink) Object() string { return fmt.Sprintf("%s %s", s.Type, s.Address) }
func (*Uplink) HCA() node.ID     { return node.ID{} }

// hostEnd returns the name of a veth's end on the node, for people. It has 13 letters at most.
func hostEnd(job uint32) string { return fmt.Sprintf("job%d", job) }

func (s *Uplink) link(w *world.World) virtual.Uplink {
	return virtual.UplinkOf(s.Type, hostEnd(w.Job), s.Address)
}

// Do makes the interface in the job and gives it address and routes. It does not fail for an
// automatic uplink, which the site did not ask for in so many words: the job then has none, and
// w.WayOut says so.
func (s *Uplink) Do(w *world.World) error {
	err := s.Clash
	if err == nil {
		err = s.give(w)
	}
	if err == nil || !s.Pool.Auto {
		return err
	}
	if undo := s.Undo(w); undo != nil {
		return hint.Join(err, undo)
	}
	if free := ForgetUplink(w); free != nil {
		return hint.Join(err, free)
	}
	w.WayOut = world.WayOut{Lacking: err}
	return nil
}

// FreeUplink frees the address of a job's uplink in the table, when the interface is gone. If no
// other job has an uplink of the kind, it returns what the node's interfaces had; what it cannot return
// stays in the table: write the table even if FreeUplink fails.
func FreeUplink(w *world.World, t *table.Table) error {
	t.FreeUplink(w.Job, w.Run)
	if !hooksInVain(t) {
		return nil
	}
	return w.OnHost(func(*scan.View) error { return endHooks(w, t) })
}

// ForgetUplink frees the address in the node table.
func ForgetUplink(w *world.World) error {
	var failed error
	err := w.Table.Update(w.Context, func(t *table.Table) error {
		failed = FreeUplink(w, t)
		return nil
	})
	return hint.Join(failed, err)
}

func (s *Uplink) give(w *world.World) error {
	job, err := w.JobNS()
	if err != nil {
		return err
	}
	if err := w.OnHost(func(v *scan.View) error { return s.make(w, v, job.FD()) }); err != nil {
		return err
	}
	return w.InJob(func(*scan.View) error { return s.configure(w) })
}

func (s *Uplink) make(w *world.World, v *scan.View, job int) error {
	u := s.link(w)
	u.Name = s.Pool.Name
	if s.Pool.Auto {
		return s.makePair(w, u, job)
	}
	parent, err := v.Link.Named(s.Pool.Parent)
	if err != nil {
		return err
	}
	return virtual.MakeUplink(u, parent.Index, job)
}

// makePair makes a veth, and has the node hand on what comes by it. Programs judge before the interface is up. The
// job's entry, by which others reach it, comes last.
func (s *Uplink) makePair(w *world.World, u virtual.Uplink, job int) error {
	node := w.Ports()
	err := virtual.MakeUplink(u, 0, job)
	if err == nil {
		err = node.Attach(s.settings())
	}
	if err == nil {
		err = node.Confine(u.Index)
	}
	if err == nil {
		err = virtual.SetMTU(u.Index, longest)
	}
	if err == nil {
		err = virtual.Open(u.Index)
	}
	if err == nil {
		err = virtual.Forward(u)
	}
	if err == nil {
		err = node.Admit(s.job(w, u))
	}
	return err
}

// longest is the MTU of both ends of a veth: what the node sends to itself is longer than what goes by a network.
const longest = 65535

// settings returns what the programs know of the node. The interface with the address that the job is known by comes
// first.
func (s *Uplink) settings() ports.Settings {
	all := s.Settings
	all.Uplinks = slices.Clone(all.Uplinks)
	slices.SortStableFunc(all.Uplinks, func(a, b ports.Uplink) int {
		is := func(u ports.Uplink) int { return map[bool]int{true: 0, false: 1}[u.Address == s.known()] }
		return is(a) - is(b)
	})
	return all
}

// job returns the job's entry.
func (s *Uplink) job(w *world.World, u virtual.Uplink) ports.Job {
	block, _ := s.Pool.Block(s.Address)
	j := ports.Job{ID: w.Job, Veth: u.Index, MAC: u.MAC, Address: s.known(), Block: block, User: s.UID, Whole: s.Whole, Aliases: map[netip.Addr]netip.Addr{}}
	as := s.Pool.Gateway
	for _, node := range s.nodes() {
		j.Aliases[node] = as
		as = as.Next()
	}
	return j
}

// isNode tells whether the job has the node's address, and not its own, by an automatic uplink.
func (s *Uplink) isNode() bool {
	return s.Pool.Auto && s.Over != nil && s.Over.Link.Address.Addr().Is4()
}

// known returns the address that the job is known by.
func (s *Uplink) known() netip.Addr {
	switch {
	case s.isNode():
		return s.Over.Link.Address.Addr()
	case s.Pool.Auto:
		return s.Pool.Source
	}
	return s.Address
}

// nodes returns the addresses of the job's nodes, this one first.
func (s *Uplink) nodes() []netip.Addr {
	all := []netip.Addr{s.known()}
	if s.Over == nil || !s.Over.Link.Address.Addr().Is4() {
		return all
	}
	all[0] = s.Over.Link.Address.Addr()
	for _, p := range s.Over.Link.Peers {
		all = append(all, p.Address)
	}
	return all
}

func (s *Uplink) configure(w *world.World) error {
	u := s.link(w)
	var err error
	if s.Pool.Auto {
		err = s.lead(u)
	} else {
		err = s.address(u)
	}
	if err == nil && (s.Pool.Auto || s.Over != nil && s.Over.Link.Address.Addr().Is4()) {
		if err := s.serve(u); err != nil {
			w.Notice("the names of the job's nodes do not lead to the nodes' own services: %s", err)
		} else {
			w.WayOut.Srun = s.srun()
		}
	}
	return err
}

// address gives a macvlan the address and routes that the site says.
func (s *Uplink) address(u virtual.Uplink) error {
	if err := virtual.Give(u.Place, netip.PrefixFrom(s.Address, s.Pool.Bits)); err != nil {
		return err
	}
	for _, to := range s.Pool.Routes {
		if err := (virtual.Route{To: to, Gateway: s.Pool.Gateway}).Add(u.Place); err != nil {
			return err
		}
	}
	return nil
}

// lead adds routes by an interface without an address. The job is known by the node's address, or has
// its own on the loopback: programs that tell each other the addresses of their interfaces, as UCX and
// NCCL do, must not find one that is another job's on each node.
func (s *Uplink) lead(u virtual.Uplink) error {
	from := s.known()
	err := virtual.SetMTU(u.Place, longest)
	if err == nil && !s.isNode() {
		err = virtual.GiveLoopback(from)
	}
	if err == nil {
		err = virtual.Open(u.Place)
	}
	if err == nil {
		err = virtual.Join(u.Place, s.Pool.Gateway, u.HostMAC)
	}
	for _, to := range s.Pool.Routes {
		r := virtual.Route{To: to, Gateway: s.Pool.Gateway, From: from, Metric: s.Pool.Metric, MTU: s.Pool.MTU, Onlink: true}
		if err == nil && to.Bits() == 0 && s.isNode() {
			err = s.showDefault(r)
			// Of the default routes of all tables the shown one has the lowest metric: netifaces compares them.
			r.Table, r.Metric = virtual.OutTable, r.Metric+1
		}
		if err == nil && to != netip.PrefixFrom(from, 32) {
			err = r.Add(u.Place)
		}
	}
	if block, has := s.Pool.Block(s.Address); err == nil && has {
		err = virtual.TakePorts(virtual.Ports{First: block.First, Last: block.Last})
	}
	return err
}

// showDefault gives the job's interface with the node's address a default route to look at, as the node's
// own has one: programs take its interface for the one with their address, and uplink0 has none.
func (s *Uplink) showDefault(r virtual.Route) error {
	index, err := virtual.FindOverlay(s.Over.Link)
	if err == nil {
		r.MTU = 0 // nothing goes there
		err = r.Add(index)
	}
	if err == nil {
		block, _ := s.Pool.Block(s.Address)
		err = virtual.ShowDefault(virtual.Ports{First: block.First, Last: block.Last}, s.Whole)
	}
	return err
}

// serve leads connections to services to the nodes themselves. It needs no undo, because its rules go
// with the namespace.
func (s *Uplink) serve(u virtual.Uplink) error {
	served := []virtual.Ports{{First: 1, Last: 1023}}
	for _, port := range s.Settings.Services {
		if port > 1023 {
			served = append(served, virtual.Ports{First: port, Last: port})
		}
	}
	from := s.known()
	hops := map[netip.Addr][]netip.Addr{}
	for _, a := range s.nodes() {
		if gateway, reached := s.hop(a); reached {
			hops[gateway] = append(hops[gateway], a)
		}
	}
	err := virtual.TakeAnswers(u.Place)
	for gateway, nodes := range hops {
		if err == nil {
			r := virtual.Route{Gateway: gateway, From: from, Table: virtual.ServicesTable, MTU: s.Pool.MTU, Onlink: gateway.IsValid()}
			err = r.AddAll(u.Place, virtual.Networks(nodes))
		}
	}
	if err == nil {
		err = virtual.Serve(served, s.shut())
	}
	return err
}

// hop returns by which next hop the uplink leads to a node. It is invalid for a neighbor.
func (s *Uplink) hop(node netip.Addr) (gateway netip.Addr, reached bool) {
	if !s.Pool.Auto && netip.PrefixFrom(s.Address, s.Pool.Bits).Contains(node) {
		return netip.Addr{}, true
	}
	leads := func(p netip.Prefix) bool { return p.Contains(node) }
	return s.Pool.Gateway, slices.ContainsFunc(s.Pool.Routes, leads)
}

// srun tells whether srun works in a job that reaches the nodes' services and is called.
func (s *Uplink) srun() bool {
	return s.isNode() && slices.Contains(s.Settings.Services, s.Slurmd) && s.Called
}

// shut returns slurmd's ports if the job does not reach them: slurmd of any node would call an srun back that listens
// where any user of the node can, too.
func (s *Uplink) shut() []int {
	if !s.isNode() || s.srun() {
		return nil
	}
	return s.Slurmds
}

// Undo removes the interface, wherever the job has put it, and then the job's entry, by which the node hands it
// packets. If the interface is not there, the job removed it, or it went with its namespace.
func (s *Uplink) Undo(w *world.World) error {
	if s.isAnothers(w) {
		return nil
	}
	if err := s.remove(w); err != nil && !errors.Is(err, virtual.ErrNotFound) {
		return fmt.Errorf("remove the uplink %s: %w", s.Address, err)
	}
	if s.Type != virtual.Veth {
		return nil
	}
	return w.Ports().Remove(s.link(w).Index)
}

// isAnothers tells whether another job has the address by now, and so an uplink of the same
// identity. Then this job's was removed before its address was freed, and only the undone mark was lost.
// In doubt, the uplink is this job's.
func (s *Uplink) isAnothers(w *world.World) bool {
	t, err := w.Table.Read()
	return err == nil && slices.ContainsFunc(t.Uplinks, func(u table.Uplink) bool {
		return u.Address == s.Address && (u.Job != w.Job || u.Run != w.Run)
	})
}

func (s *Uplink) remove(w *world.World) error {
	u := s.link(w)
	look := func(*scan.View) error { return virtual.DeleteUplink(u) }
	if s.Type == virtual.Veth {
		return w.OnHost(look)
	}
	return w.Either(false, virtual.ErrNotFound, look)
}
