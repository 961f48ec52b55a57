package step

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/bpf"
	"gresnet/lib/hint"
	"gresnet/lib/link"
	"gresnet/lib/nft"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/table"
	"gresnet/lib/uplink"
	"gresnet/lib/virtual"
)

// Uplink makes the job's way to the management network. Its undo needs the
// address alone, of which all is made that tells the interface from others.
type Uplink struct {
	Type    string     `json:"type"` // macvlan, ipvlan or veth
	Address netip.Addr `json:"address"`
	NAT     bool       `json:"nat,omitempty"` // there may be a rule for it

	Pool       uplink.Pool        `json:"-"`
	UID        uint32             `json:"-"` // whose processes on the node reach the job
	Forwarding []table.Forwarding `json:"-"`
	// Inbound has what comes to the node, and is for nobody there, reach the job; nil: nobody does.
	Inbound *nft.Inbound `json:"-"`

	// Clash is why the interface cannot have its name.
	Clash error `json:"-"`

	// Closed is why nobody reaches the job after all.
	Closed error `json:"-"`

	// MTU is that of the job's overlay, if slurmd on other nodes is to call the job back by it; Back is
	// under which addresses the node then has the job's other nodes.
	MTU  int          `json:"-"`
	Back netip.Prefix `json:"-"`

	// Lacking is why the job has none after all, of one that it can do without.
	Lacking error `json:"-"`
}

func (*Uplink) Kind() string     { return "uplink" }
func (s *Uplink) Object() string { return fmt.Sprintf("%s %s", s.Type, s.Address) }
func (*Uplink) HCA() node.ID     { return node.ID{} }

// hostEnd is the name of a veth's end on the node, for people: 13 letters at most.
func hostEnd(job uint32) string { return fmt.Sprintf("job%d", job) }

// natTable is the nftables table whose one rule is about an address.
func natTable(a netip.Addr) string { return "gresnet_" + a.String() }

func (s *Uplink) link(w *World) virtual.Uplink {
	return virtual.UplinkOf(s.Type, hostEnd(w.Job), s.Address)
}

// Do makes the interface in the job, and there gives it address and routes. Where nobody said
// what jobs need, but that they have a way out if the node lets them, none is no failure.
func (s *Uplink) Do(w *World) error {
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
	if free := w.freeUplink(); free != nil {
		return hint.Join(err, free)
	}
	s.Lacking = err
	return nil
}

func (w *World) freeUplink() error {
	var failed error
	err := w.Table.Update(w.Context, func(t *table.Table) error {
		failed = w.FreeUplink(t, w.Job, w.Run)
		return nil
	})
	return hint.Join(failed, err)
}

func (s *Uplink) give(w *World) error {
	job, err := w.openJob()
	if err != nil {
		return err
	}
	if err := w.OnHost(func(v *scan.View) error { return s.make(w, v, job.ns.FD()) }); err != nil {
		return err
	}
	return w.inJob(func(*scan.View) error { return s.configure(w) })
}

func (s *Uplink) make(w *World, v *scan.View, job int) error {
	u := s.link(w)
	u.Name = s.Pool.Name
	if s.Type != "veth" {
		parent, err := v.Link.Named(s.Pool.Parent)
		if err != nil {
			return err
		}
		return virtual.MakeUplink(u, parent.Index, job)
	}
	if err := virtual.MakeUplink(u, 0, job); err != nil {
		return err
	}
	// Before it is up: nothing passes that the filter does not see.
	if err := s.confine(u); err != nil {
		return err
	}
	if s.Pool.Auto {
		if err := s.leadOut(v, u); err != nil {
			return err
		}
	}
	if err := s.narrow(u.Index); err != nil {
		return err
	}
	if err := virtual.Give(u.Index, netip.PrefixFrom(s.Pool.Gateway, 32), s.Address); err != nil {
		return err
	}
	s.leadBack(w, v, u.Index)
	if s.Pool.Beyond {
		if err := link.Forward(u.Host, true); err != nil {
			return err
		}
	}
	if s.NAT && !s.Pool.Auto {
		return nft.Masquerade(natTable(s.Address), s.Address)
	}
	return nil
}

// mostConnections is a sixteenth of what the kernel keeps of all connections of a node
// (nf_conntrack_core.c:nf_conntrack_init_start, from 4 GiB of memory on).
const mostConnections = 16384

// leadOut has the node forward what comes back for the job, and nothing else.
func (s *Uplink) leadOut(v *scan.View, u virtual.Uplink) error {
	job := nft.Job{Address: s.Address, Index: uint32(u.Index), Bit: virtual.UplinkBit, UID: s.UID, Most: mostConnections}
	job.Inbound = s.Inbound
	err := nft.LeadOut(natTable(s.Address), job)
	if err != nil && job.Inbound != nil {
		s.Closed, job.Inbound = err, nil
		err = nft.LeadOut(natTable(s.Address), job)
	}
	for _, f := range s.Forwarding {
		if err == nil {
			err = forward(v, f)
		}
	}
	return err
}

// confine holds the job to the addresses that it has routes to: a socket that is bound
// to the interface takes all addresses for neighbors, and the node's kernel answers for each
// that it has, whatever interface that is on.
func (s *Uplink) confine(u virtual.Uplink) error {
	program, err := bpf.NewReach(append([]netip.Prefix{netip.PrefixFrom(s.Pool.Gateway, 32)}, s.Pool.Routes...))
	if err != nil {
		return err
	}
	defer program.Close()
	return virtual.Confine(u, program)
}

// narrow lets no longer packets through than the overlay does, which some of them go on by.
func (s *Uplink) narrow(index int) error {
	if s.MTU == 0 {
		return nil
	}
	return virtual.Narrow(index, s.MTU)
}

// leadBack has the node reach the job's other nodes through the job, for calls of slurmd. Without
// that, srun in a step starts no steps on other nodes, and all else of the job works.
func (s *Uplink) leadBack(w *World, v *scan.View, index int) {
	if s.MTU == 0 {
		return
	}
	var back netip.Prefix
	host, err := uplink.Look(v.Link)
	if err == nil {
		back, err = host.Back(s.Address)
	}
	if err == nil {
		err = virtual.Route(index, back, s.Address, netip.Addr{}, 0)
	}
	if err != nil {
		w.Notice("slurmd on the job's other nodes does not call it back: %s", err)
		return
	}
	s.Back = back
}

func (s *Uplink) configure(w *World) error {
	index := s.link(w).Index
	if err := s.narrow(index); err != nil {
		return err
	}
	if s.Pool.Auto {
		return s.lead(index)
	}
	peer := s.Address
	if s.Type == "veth" {
		peer = s.Pool.Gateway
	}
	if err := virtual.Give(index, netip.PrefixFrom(s.Address, s.Pool.Bits), peer); err != nil {
		return err
	}
	for _, to := range s.Pool.Routes {
		if err := virtual.Route(index, to, s.Pool.Gateway, netip.Addr{}, s.Pool.Metric); err != nil {
			return err
		}
	}
	return nil
}

// lead leads out by an interface that has no address: the job has it on its loopback. Programs that tell
// each other the addresses of their interfaces, as UCX and NCCL do, must not find one that
// means another job on each node.
func (s *Uplink) lead(index int) error {
	if err := virtual.GiveLoopback(s.Address); err != nil {
		return err
	}
	if err := virtual.Open(index); err != nil {
		return err
	}
	if err := virtual.Route(index, netip.PrefixFrom(s.Pool.Gateway, 32), netip.Addr{}, s.Address, 0); err != nil {
		return err
	}
	for _, to := range s.Pool.Routes {
		if err := virtual.Route(index, to, s.Pool.Gateway, s.Address, s.Pool.Metric); err != nil {
			return err
		}
	}
	return nil
}

// Undo removes the interface wherever the job has put it, and the rule. What is
// not there, the job or the end of its namespace has removed.
func (s *Uplink) Undo(w *World) error {
	if s.isAnothers(w) {
		return nil
	}
	if err := s.remove(w); err != nil && !errors.Is(err, virtual.ErrNotFound) {
		return fmt.Errorf("remove the uplink %s: %w", s.Address, err)
	}
	if !s.NAT {
		return nil // and nftables' modules are not loaded for nothing
	}
	return w.OnHost(func(*scan.View) error { return nft.Remove(natTable(s.Address)) })
}

// isAnothers tells whether another job has the address by now, and with it all
// that identifies an uplink: then this one was removed before it was freed, and
// only the strike that says so was lost. While in doubt it is this job's.
func (s *Uplink) isAnothers(w *World) bool {
	t, err := w.Table.Read()
	return err == nil && slices.ContainsFunc(t.Uplinks, func(u table.Uplink) bool {
		return u.Address == s.Address && (u.Job != w.Job || u.Run != w.Run)
	})
}

func (s *Uplink) remove(w *World) error {
	u := s.link(w)
	look := func(*scan.View) error { return virtual.DeleteUplink(u) }
	if s.Type == "veth" {
		return w.OnHost(look)
	}
	err := w.inJob(look)
	if errors.Is(err, errNoNamespace) || errors.Is(err, virtual.ErrNotFound) {
		err = w.elsewhere(virtual.ErrNotFound, look)
	}
	return err
}
