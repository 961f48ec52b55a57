package step

import (
	"errors"
	"fmt"
	"net/netip"

	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/virtual"
	"gresnet/lib/world"
)

// Child makes the interface that a slot has in the job, on one of the node. Its undo needs only the
// index, which a job cannot change. The zero Child stands for all that the job's namespace has.
type Child struct {
	Of    node.ID `json:"hca"`
	Name  string  `json:"name"`
	Type  string  `json:"type"` // macvlan or ipvlan
	Index int     `json:"index"`

	Link   virtual.Child `json:"-"`
	Parent int           `json:"-"` // index of the interface of the node
	Port   uint32        `json:"-"` // of the HCA, which has GIDs for the interface; 0: it has none
	// Addresses are those that it has after Do.
	Addresses []netip.Addr `json:"-"`
}

func (*Child) Kind() string     { return "child" }
func (s *Child) Object() string { return s.Name }
func (s *Child) HCA() node.ID   { return s.Of }

// Do makes the interface and waits until the HCA has a GID for its address.
func (s *Child) Do(w *world.World) error {
	job, err := w.JobNS()
	if err != nil {
		return err
	}
	if err := w.OnHost(func(*scan.View) error { return virtual.MakeChild(s.Link, s.Parent, job.FD()) }); err != nil {
		return err
	}
	err = w.InJob(func(*scan.View) (err error) {
		s.Addresses, err = virtual.RaiseChild(s.Link)
		return err
	})
	if err != nil {
		return err
	}
	if s.Port == 0 {
		return nil
	}
	gids := world.GIDs{HCA: s.Of, Port: s.Port}
	for _, a := range s.Addresses {
		if a == s.Link.Address.Addr() || !s.Link.Address.IsValid() {
			gids.Want = append(gids.Want, netip.AddrFrom16(a.As16()))
		}
	}
	return w.OnHost(func(v *scan.View) error { return w.AwaitGIDs(v, gids) })
}

// Undo deletes the interface, wherever the job has put it. If it is not there, it was never made, or
// it went with its namespace.
func (s *Child) Undo(w *world.World) error {
	look := func(*scan.View) error { return virtual.DeleteChild(s.Type, s.Index) }
	if s.Index == 0 {
		look = func(*scan.View) error { return virtual.DeleteChildren() }
	}
	err := w.InJob(look)
	if s.Index == 0 && errors.Is(err, world.ErrNoNamespace) {
		return nil
	}
	if errors.Is(err, world.ErrNoNamespace) || errors.Is(err, virtual.ErrNotFound) {
		err = w.Elsewhere(virtual.ErrNotFound, look)
	}
	if err != nil && !errors.Is(err, virtual.ErrNotFound) {
		return fmt.Errorf("remove %s: %w", s.Name, err)
	}
	return nil
}
