package step

import (
	"errors"
	"fmt"
	"net/netip"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/link"
	"gresnet/lib/network/virtual"
)

// Child makes an interface in the job: for a slot on an interface of the node, or for a partition on
// one that has moved into the job. Its undo needs only the index, which a job cannot change. The zero
// Child stands for all that the job's namespace has.
type Child struct {
	Of    node.ID `json:"hca"`
	Name  string  `json:"name"`
	Type  string  `json:"type"` // macvlan, ipvlan or ipoib
	Index int     `json:"index"`

	PKey node.PKey `json:"pkey,omitempty"` // of an ipoib

	Link   virtual.Child `json:"-"`
	Parent int           `json:"-"` // index of the interface of the node
	// Moved is that interface, if an earlier step moves it, or the kernel makes it again: then its index
	// is another. Inside tells whether it is in the job.
	Moved  link.ID `json:"-"`
	Inside bool    `json:"-"`
	Port   uint32  `json:"-"` // of the HCA; 0: the HCA has no GIDs for the interface
	// What an ipoib has as that of the node has it.
	IPoIB   link.IPoIB `json:"-"`
	Running bool       `json:"-"` // it has a carrier, and the other will when a subnet manager lets it join
	// Addresses are those that it has after Do.
	Addresses []netip.Addr `json:"-"`
}

func (*Child) Kind() string { return "child" }
func (s *Child) Object() string {
	if s.PKey != 0 {
		return fmt.Sprintf("%s (P_Key %s)", s.Name, s.PKey)
	}
	return s.Name
}
func (s *Child) HCA() node.ID { return s.Of }

// Do makes the interface and waits until the HCA has a GID for its address.
func (s *Child) Do(w *world.World) error {
	job, err := w.JobNS()
	if err != nil {
		return err
	}
	there := w.OnHost
	if s.Inside {
		there = w.InJob
	}
	err = there(func(v *scan.View) error {
		parent := s.Parent
		if s.Moved != (link.ID{}) {
			i, err := v.Interface(s.Moved)
			if err != nil {
				return err
			}
			parent = i.Index
		}
		return virtual.MakeChild(s.Link, parent, job.FD())
	})
	if err != nil {
		return err
	}
	err = w.InJob(func(v *scan.View) (err error) {
		if s.Type == virtual.IPoIB {
			if err := v.Link.SetIPoIBOf(s.Index, s.IPoIB); err != nil {
				return err
			}
		}
		s.Addresses, err = virtual.RaiseChild(s.Link)
		return err
	})
	if err != nil {
		return err
	}
	if s.Running {
		w.LeaveCarrier(s, s.Index)
	}
	if s.Port == 0 || s.Type == virtual.IPoIB {
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
// it went with its namespace, as a macvlan and an ipvlan do.
func (s *Child) Undo(w *world.World) error {
	var err error
	if s.Index != 0 {
		err = w.Either(s.Type == virtual.IPoIB, virtual.ErrNotFound, func(*scan.View) error { return virtual.DeleteChild(s.Type, s.Index) })
	} else if err = w.InJob(func(*scan.View) error { return virtual.DeleteChildren() }); err == nil || errors.Is(err, world.ErrNoNamespace) {
		err = w.OnHost(func(*scan.View) error { return virtual.DeleteChildren() })
	}
	if err != nil && !errors.Is(err, virtual.ErrNotFound) {
		return fmt.Errorf("remove %s: %w", s.Name, err)
	}
	return nil
}
