// Package network has the deeds that make the job's own network, each with its undo beside it: its
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
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/nft"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state/table"
)

// Uplink makes the job's way to the management network. Its undo needs only the address, which
// determines the interface's identity.
type Uplink struct {
	Type    string     `json:"type"` // veth or macvlan; an older prolog's may be ipvlan
	Address netip.Addr `json:"address"`
	NAT     bool       `json:"nat,omitempty"` // of veth: there may be an nftables table for it

	Pool       jobnet.Pool        `json:"-"`
	Block      virtual.Ports      `json:"-"` // the job's ports, inside and out; zero: it has no block
	Few        virtual.Ports      `json:"-"` // those by which it leaves the node then; zero: by any
	Root       []virtual.Ports    `json:"-"` // where root's processes on the node reach it
	UID        uint32             `json:"-"` // the user whose processes on the node reach the job
	Jobs       int                `json:"-"` // how many jobs the node can have at one time
	Forwarding []table.Forwarding `json:"-"`
	// Inbound leads connections to the node on to the job, if nobody on the node has them; nil: it
	// leads none.
	Inbound *nft.Inbound `json:"-"`

	// Clash is why the interface cannot have its name.
	Clash error `json:"-"`

	// Over is the overlay, which the job has before its uplink; nil: it has none. Its nodes' Services,
	// and those at all ports below 1024, are reached by the uplink. With Slurmd, slurmd's port, srun in
	// the job calls each node's slurmd itself.
	Over     *Overlay   `json:"-"`
	Services []int      `json:"-"`
	Slurmd   int        `json:"-"`
	Slurmds  []int      `json:"-"` // all ports of slurmd on the job's nodes
	Calls    *nft.Calls `json:"-"` // who calls srun in the job; nil: the node alone
}

// UplinkFrom returns the step of an uplink that only the table still knows.
func UplinkFrom(u table.Uplink) *Uplink {
	return &Uplink{Type: u.Type, Address: u.Address, NAT: u.Type == virtual.Veth}
}

func (*Uplink) Kind() string     { return "uplink" }
func (s *Uplink) Object() string { return fmt.Sprintf("%s %s", s.Type, s.Address) }
func (*Uplink) HCA() node.ID     { return node.ID{} }

// hostEnd returns the name of a veth's end on the node, for people. It has 13 letters at most.
func hostEnd(job uint32) string { return fmt.Sprintf("job%d", job) }

// natTable returns the name of the nftables table for an address.
func natTable(a netip.Addr) string { return "gresnet_" + a.String() }

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
// other job needs forwarding, it ends that; what it cannot end stays in the table: write the table
// even if FreeUplink fails.
func FreeUplink(w *world.World, t *table.Table) error {
	t.FreeUplink(w.Job, w.Run)
	if !forwardsInVain(t) {
		return nil
	}
	return w.OnHost(func(v *scan.View) error { return endForwarding(v, t) })
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
		return s.makePair(w, v, u, job)
	}
	parent, err := v.Link.Named(s.Pool.Parent)
	if err != nil {
		return err
	}
	return virtual.MakeUplink(u, parent.Index, job)
}

// makePair makes a veth, and the node lead on what comes by it. Filter and tables are there before the
// interface is up. Once they judge, nobody begins what they would not let through: so old connections are
// forgotten last.
func (s *Uplink) makePair(w *world.World, v *scan.View, u virtual.Uplink, job int) error {
	err := virtual.MakeUplink(u, 0, job)
	if err == nil {
		err = s.confine(u)
	}
	if err == nil {
		err = s.leadOut(w, v, u)
	}
	if err == nil {
		err = s.join(u)
	}
	if err == nil {
		err = nft.Forget(s.Address)
	}
	if err == nil {
		err = virtual.Forward(u)
	}
	return err
}

// leadOut makes the node forward answers to the job, and nothing else.
func (s *Uplink) leadOut(w *world.World, v *scan.View, u virtual.Uplink) error {
	job := nft.Job{
		Address: s.Address, Index: uint32(u.Index), Bit: virtual.UplinkBit, UID: s.UID, Ports: s.ports(),
		Inbound: s.Inbound, Identity: s.identity(s.Calls),
	}
	for _, p := range s.Root {
		job.Root = append(job.Root, [2]int{p.First, p.Last})
	}
	s.shut(&job)
	if err := s.limit(&job); err != nil {
		return err
	}
	err := nft.LeadOut(natTable(s.Address), job)
	if err != nil && (job.Inbound != nil || s.Calls != nil) {
		w.WayOut.Closed, job.Inbound, job.Identity = err, nil, s.identity(nil)
		s.shut(&job)
		err = nft.LeadOut(natTable(s.Address), job)
	}
	for _, f := range s.Forwarding {
		if err == nil {
			err = beginForwarding(v, f)
		}
	}
	return err
}

// shut keeps srun of a job that nobody calls from slurmd of other nodes. They would call back where any user of the
// node can listen. Without Slurmd, slurmd of the own node would have others call the uplink's address, which is
// another job's there: so srun does not reach that, either.
func (s *Uplink) shut(job *nft.Job) {
	if here := s.Slurmd == 0; s.isNode() && (here || job.Identity.Calls == nil) {
		job.Shut, job.ShutHere = s.Slurmds, here
	}
}

// ports returns those from which the job sends.
func (s *Uplink) ports() [2]int {
	p := s.Block
	if !p.Any() {
		p = s.Few
	}
	return [2]int{p.First, p.Last}
}

// confine limits what the job sends to plain IPv4 from its address, which the tables of nftables then judge.
func (s *Uplink) confine(u virtual.Uplink) error {
	program, err := bpf.NewPlain(s.Address)
	if err != nil {
		return err
	}
	defer program.Close()
	return virtual.Confine(u, program)
}

// called returns who calls srun in the job, if anybody beyond the node can.
func (s *Uplink) called(w *world.World) *nft.Calls {
	if w.WayOut.Closed != nil {
		return nil
	}
	return s.Calls
}

// identity returns what the node does for a job that has the node's address and is called, or nil.
func (s *Uplink) identity(calls *nft.Calls) *nft.Identity {
	if !s.isNode() {
		return nil
	}
	i := &nft.Identity{Node: s.Over.Link.Address.Addr(), Gateway: s.Pool.Gateway, Slurm: s.Services, Calls: calls}
	i.Nodes = s.nodes()
	return i
}

// isNode tells whether the job has the node's address, and not its own, by an automatic uplink.
func (s *Uplink) isNode() bool {
	return s.Pool.Auto && s.Over != nil && s.Over.Link.Address.Addr().Is4()
}

// known returns the address that the job is known by.
func (s *Uplink) known() netip.Addr {
	if s.isNode() {
		return s.Over.Link.Address.Addr()
	}
	return s.Address
}

// nodes returns the addresses of the job's nodes, this one first.
func (s *Uplink) nodes() []netip.Addr {
	all := []netip.Addr{s.Over.Link.Address.Addr()}
	for _, p := range s.Over.Link.Peers {
		all = append(all, p.Address)
	}
	return all
}

// join joins the node's end of a veth to the job's. The node has no address there: programs that tell
// each other the addresses of their interfaces would take one that all nodes have for one of their own
// network, as Open MPI does.
func (s *Uplink) join(u virtual.Uplink) error {
	from := s.Pool.Source
	if s.isNode() {
		from = s.Over.Link.Address.Addr()
		if err := virtual.SetMTU(u.Index, s.Over.Link.MTU); err != nil {
			return err
		}
	}
	if err := virtual.Open(u.Index); err != nil {
		return err
	}
	if err := virtual.Join(u.Index, s.Address, u.MAC); err != nil {
		return err
	}
	return virtual.Route{To: netip.PrefixFrom(s.Address, 32), From: from}.Add(u.Index)
}

func (s *Uplink) configure(w *world.World) error {
	u := s.link(w)
	var err error
	if s.Pool.Auto {
		err = s.lead(u)
	} else {
		err = s.address(u)
	}
	if err == nil && s.Over != nil && s.Over.Link.Address.Addr().Is4() {
		if err := s.serve(u); err != nil {
			w.Notice("the names of the job's nodes do not lead to the nodes' own services: %s", err)
		} else {
			w.WayOut.Srun = s.srun(s.called(w))
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
	var err error
	if s.isNode() {
		err = virtual.SetMTU(u.Place, s.Over.Link.MTU)
	} else {
		err = virtual.GiveLoopback(s.Address)
	}
	if err == nil {
		err = virtual.Open(u.Place)
	}
	if err == nil {
		err = virtual.Join(u.Place, s.Pool.Gateway, u.HostMAC)
	}
	for _, to := range s.Pool.Routes {
		r := virtual.Route{To: to, Gateway: s.Pool.Gateway, From: from, Metric: s.Pool.Metric, Onlink: true}
		if err == nil && to.Bits() == 0 && s.isNode() {
			err = s.showDefault(r)
			// Of the default routes of all tables the shown one has the lowest metric: netifaces compares them.
			r.Table, r.Metric = virtual.OutTable, r.Metric+1
		}
		if err == nil && to != netip.PrefixFrom(from, 32) {
			err = r.Add(u.Place)
		}
	}
	if ports := s.ports(); err == nil && (s.isNode() || ports[0] > 0) {
		err = nft.Translate(u.Place, s.Address, from, ports)
	}
	if err == nil && s.Block.Any() {
		err = virtual.TakePorts(s.Block)
	}
	return err
}

// showDefault gives the job's interface with the node's address a default route to look at, as the node's
// own has one: programs take its interface for the one with their address, and uplink0 has none.
func (s *Uplink) showDefault(r virtual.Route) error {
	index, err := virtual.FindOverlay(s.Over.Link)
	if err == nil {
		err = r.Add(index)
	}
	if err == nil {
		err = virtual.ShowDefault()
	}
	return err
}

// serve leads connections to services to the nodes themselves. It needs no undo, because its rules go
// with the namespace.
func (s *Uplink) serve(u virtual.Uplink) error {
	ports := []virtual.Ports{{First: 1, Last: 1023}}
	for _, port := range s.Services {
		if port > 1023 {
			ports = append(ports, virtual.Ports{First: port, Last: port})
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
			r := virtual.Route{Gateway: gateway, From: from, Table: virtual.ServicesTable, Onlink: gateway.IsValid()}
			err = r.AddAll(u.Place, virtual.Networks(nodes))
		}
	}
	if err == nil {
		err = virtual.Serve(ports)
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
func (s *Uplink) srun(calls *nft.Calls) bool {
	return s.isNode() && slices.Contains(s.Services, s.Slurmd) && (len(s.Over.Link.Peers) == 0 || calls != nil)
}

// Undo removes the interface, wherever the job has put it, and the nftables table. If the interface
// is not there, the job removed it, or it went with its namespace.
func (s *Uplink) Undo(w *world.World) error {
	if s.isAnothers(w) {
		return nil
	}
	if err := s.remove(w); err != nil && !errors.Is(err, virtual.ErrNotFound) {
		return fmt.Errorf("remove the uplink %s: %w", s.Address, err)
	}
	if !s.NAT {
		return nil // without loading the modules of nftables for nothing
	}
	return w.OnHost(func(*scan.View) error { return nft.Remove(natTable(s.Address)) })
}

// isAnothers tells whether another job has the address by now, and so an uplink of the same
// identity. Then this job's was removed before its address was freed, and only the strike was lost.
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
