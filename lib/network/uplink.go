// Package network has the deeds that make the job's own network, each with its undo beside it: its
// uplink to the management network, and its overlay between its nodes. They are steps of a lease
// like those in package step, which ranks them all.
package network

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/bpf"
	"gresnet/lib/forwarding"
	"gresnet/lib/hint"
	"gresnet/lib/link"
	"gresnet/lib/nft"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/table"
	"gresnet/lib/uplink"
	"gresnet/lib/virtual"
	"gresnet/lib/world"
)

// Uplink makes the job's way to the management network. Its undo needs only the address, which
// determines the interface's identity.
type Uplink struct {
	Type    string     `json:"type"` // macvlan, ipvlan or veth
	Address netip.Addr `json:"address"`
	NAT     bool       `json:"nat,omitempty"` // there may be an nftables table for it

	Pool       uplink.Pool        `json:"-"`
	UID        uint32             `json:"-"` // the user whose processes on the node reach the job
	Jobs       int                `json:"-"` // how many jobs the node can have at one time
	Forwarding []table.Forwarding `json:"-"`
	// Inbound leads connections to the node on to the job, if nobody on the node has them; nil: it
	// leads none.
	Inbound *nft.Inbound `json:"-"`

	// Clash is why the interface cannot have its name.
	Clash error `json:"-"`

	// Closed is why the job has no Inbound after all.
	Closed error `json:"-"`

	// MTU is the overlay's MTU, if slurmd on other nodes has to call the job back by the overlay.
	// Back has the addresses under which the node then reaches the job's other nodes.
	MTU  int          `json:"-"`
	Back netip.Prefix `json:"-"`

	// Lacking is why the job has no uplink, if it can do without one.
	Lacking error `json:"-"`
}

// UplinkFrom returns the step of an uplink that only the table still knows.
func UplinkFrom(u table.Uplink) *Uplink {
	return &Uplink{Type: u.Type, Address: u.Address, NAT: u.Type == "veth"}
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
// automatic uplink, which the site did not ask for in so many words: the job then has none.
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
	if free := freeUplink(w); free != nil {
		return hint.Join(err, free)
	}
	s.Lacking = err
	return nil
}

// FreeUplink frees the address of a job's uplink in the table, when the interface is gone. If no
// other job needs forwarding, it ends that; what it cannot end stays in the table: write the table
// even if FreeUplink fails.
func FreeUplink(w *world.World, t *table.Table, job uint32, run string) error {
	t.FreeUplink(job, run)
	if !forwarding.Unneeded(t) {
		return nil
	}
	return w.OnHost(func(v *scan.View) error { return forwarding.End(v, t) })
}

func freeUplink(w *world.World) error {
	var failed error
	err := w.Table.Update(w.Context, func(t *table.Table) error {
		failed = FreeUplink(w, t, w.Job, w.Run)
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
	// The filter must be there before the interface is up.
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

// leadOut makes the node forward answers to the job, and nothing else.
func (s *Uplink) leadOut(v *scan.View, u virtual.Uplink) error {
	job := nft.Job{Address: s.Address, Index: uint32(u.Index), Bit: virtual.UplinkBit, UID: s.UID, Inbound: s.Inbound}
	if err := s.limit(&job); err != nil {
		return err
	}
	err := nft.LeadOut(natTable(s.Address), job)
	if err != nil && job.Inbound != nil {
		s.Closed, job.Inbound = err, nil
		err = nft.LeadOut(natTable(s.Address), job)
	}
	for _, f := range s.Forwarding {
		if err == nil {
			err = forwarding.Begin(v, f)
		}
	}
	return err
}

// confine limits the job to the addresses that it has routes to. A socket that is bound to the
// interface takes all addresses for neighbors, and the node's kernel answers for each of its own,
// on whatever interface it is.
func (s *Uplink) confine(u virtual.Uplink) error {
	program, err := bpf.NewReach(append([]netip.Prefix{netip.PrefixFrom(s.Pool.Gateway, 32)}, s.Pool.Routes...))
	if err != nil {
		return err
	}
	defer program.Close()
	return virtual.Confine(u, program)
}

// narrow lowers the MTU to that of the overlay, because some packets leave by the overlay.
func (s *Uplink) narrow(index int) error {
	if s.MTU == 0 {
		return nil
	}
	return virtual.Narrow(index, s.MTU)
}

// leadBack makes the node reach the job's other nodes through the job, for calls of slurmd. If that
// fails, srun in a step starts no steps on other nodes, and all else of the job works.
func (s *Uplink) leadBack(w *world.World, v *scan.View, index int) {
	if s.MTU == 0 {
		return
	}
	var back netip.Prefix
	host, err := uplink.Look(v.Link.Conn)
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

func (s *Uplink) configure(w *world.World) error {
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

// lead adds routes by an interface without an address, and gives the address to the job's loopback.
// Programs that tell each other the addresses of their interfaces, as UCX and NCCL do, must not
// find this one, which is another job's on each node.
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
	if s.Type == "veth" {
		return w.OnHost(look)
	}
	err := w.InJob(look)
	if errors.Is(err, world.ErrNoNamespace) || errors.Is(err, virtual.ErrNotFound) {
		err = w.Elsewhere(virtual.ErrNotFound, look)
	}
	return err
}
