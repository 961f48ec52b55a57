package step

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/bpf"
	"gresnet/lib/link"
	"gresnet/lib/lock"
	"gresnet/lib/nat"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/uplink"
)

// Uplink makes the job's way to the management network. Its undo needs the
// address alone, of which all is made that tells the interface from others.
type Uplink struct {
	Type    string     `json:"type"` // macvlan, ipvlan or veth
	Address netip.Addr `json:"address"`
	NAT     bool       `json:"nat,omitempty"` // there may be a rule for it

	Pool uplink.Pool `json:"-"`
}

func (*Uplink) Kind() string     { return "uplink" }
func (s *Uplink) Object() string { return fmt.Sprintf("%s %s", s.Type, s.Address) }
func (*Uplink) HCA() node.ID     { return node.ID{} }

// hostEnd is the name of a veth's end on the node, for people: 13 letters at most.
func hostEnd(job uint32) string { return fmt.Sprintf("job%d", job) }

// natTable is the nftables table whose one rule is about an address.
func natTable(a netip.Addr) string { return "gresnet_" + a.String() }

func (s *Uplink) link(w *World) link.Uplink { return link.UplinkOf(s.Type, hostEnd(w.Job), s.Address) }

// Do makes the interface in the job, and there gives it address and routes.
func (s *Uplink) Do(w *World) error {
	job, err := w.openJob()
	if err != nil {
		return err
	}
	if err := w.OnHost(func(v *scan.View) error { return s.make(w, v, job.ns.FD()) }); err != nil {
		return err
	}
	return w.inJob(func(v *scan.View) error { return s.configure(w, v) })
}

func (s *Uplink) make(w *World, v *scan.View, job int) error {
	u := s.link(w)
	if s.Type != "veth" {
		parent, err := v.Link.Named(s.Pool.Parent)
		if err != nil {
			return err
		}
		return v.Link.MakeUplink(u, parent.Index, job)
	}
	if err := v.Link.MakeUplink(u, 0, job); err != nil {
		return err
	}
	// Before it is up: nothing passes that the filter does not see.
	if err := s.confine(u); err != nil {
		return err
	}
	if err := v.Link.Give(u.Index, netip.PrefixFrom(s.Pool.Gateway, 32), s.Address); err != nil {
		return err
	}
	if s.Pool.Beyond {
		if err := link.Forward(u.Host); err != nil {
			return err
		}
	}
	if s.NAT {
		return nat.Masquerade(natTable(s.Address), s.Address)
	}
	return nil
}

// confine holds the job to the addresses that it has routes to: a socket that is bound
// to the interface takes all addresses for neighbors, and the node's kernel answers for each
// that it has, whatever interface that is on.
func (s *Uplink) confine(u link.Uplink) error {
	program, err := bpf.NewReach(append([]netip.Prefix{netip.PrefixFrom(s.Pool.Gateway, 32)}, s.Pool.Routes...))
	if err != nil {
		return err
	}
	defer program.Close()
	return link.Confine(u, program)
}

func (s *Uplink) configure(w *World, v *scan.View) error {
	index := s.link(w).Index
	peer := s.Address
	if s.Type == "veth" {
		peer = s.Pool.Gateway
	}
	if err := v.Link.Give(index, netip.PrefixFrom(s.Address, s.Pool.Bits), peer); err != nil {
		return err
	}
	for _, to := range s.Pool.Routes {
		if err := v.Link.Route(index, to, s.Pool.Gateway); err != nil {
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
	if err := s.remove(w); err != nil && !errors.Is(err, link.ErrNotFound) {
		return fmt.Errorf("remove the uplink %s: %w", s.Address, err)
	}
	if !s.NAT {
		return nil // and nftables' modules are not loaded for nothing
	}
	return w.OnHost(func(*scan.View) error { return nat.Remove(natTable(s.Address)) })
}

// isAnothers tells whether another job has the address by now, and with it all
// that identifies an uplink: then this one was removed before it was freed, and
// only the strike that says so was lost. While in doubt it is this job's.
func (s *Uplink) isAnothers(w *World) bool {
	t, err := w.Table.Read()
	return err == nil && slices.ContainsFunc(t.Uplinks, func(u lock.Uplink) bool {
		return u.Address == s.Address && (u.Job != w.Job || u.Run != w.Run)
	})
}

func (s *Uplink) remove(w *World) error {
	u := s.link(w)
	look := func(v *scan.View) error { return v.Link.DeleteUplink(u) }
	if s.Type == "veth" {
		return w.OnHost(look)
	}
	err := w.inJob(look)
	if errors.Is(err, errNoNamespace) || errors.Is(err, link.ErrNotFound) {
		err = w.elsewhere(link.ErrNotFound, look)
	}
	return err
}
