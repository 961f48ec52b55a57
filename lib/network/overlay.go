package network

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/kernel/nft"
	"gresnet/lib/link"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state/table"
)

// Overlay makes the job's end of the network between its nodes. Its undo needs only the network's id,
// which determines the interface's identity.
type Overlay struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Leader  uint32 `json:"leader,omitempty"` // the job whose id the network has, if it is another component

	Link virtual.Overlay `json:"-"`
}

func (*Overlay) Kind() string     { return "overlay" }
func (s *Overlay) Object() string { return s.Name }
func (*Overlay) HCA() node.ID     { return node.ID{} }

// overlayTable returns the name of the nftables table that drops packets which users forge.
func overlayTable(job uint32) string { return fmt.Sprintf("gresnet_overlay_%d", job) }

// Do makes the interface in the job and adds the other nodes. Before that, it makes the node drop
// packets that users forge.
func (s *Overlay) Do(w *world.World) error {
	err := w.OnHost(func(*scan.View) error {
		if err := virtual.HoldsLowPorts(); err != nil {
			return err
		}
		if err := nft.DropForged(overlayTable(w.Job), s.Link.Port); err != nil {
			return err
		}
		return s.make(w)
	})
	if errors.Is(err, virtual.ErrOverlayTaken) {
		return &gres.Refusal{
			Ask: "overlay", Why: fmt.Sprintf("%s; another job of the node may have an id that differs by a multiple of %d", err, 1<<24),
			Do: "GN254 run the job again when that one has ended",
		}
	}
	if err != nil {
		return err
	}
	return w.InJob(func(*scan.View) error { return virtual.RaiseOverlay(s.Link) })
}

// make makes the interface with the index that it is to have in the job. Kernels before 6.15 take that for an interface
// of the calling thread's namespace, and make none. So there it is made in a namespace by the way, and taken from there to
// the job.
func (s *Overlay) make(w *world.World) error {
	job, err := w.JobNS()
	if err != nil {
		return err
	}
	if at := s.Link; at.Place != 0 {
		at.Index = at.Place
		if err := virtual.MakeOverlay(at, job.FD()); !errors.Is(err, virtual.ErrOverlayTaken) {
			return err
		}
	}
	return netns.Passing(func(by *netns.NS) error {
		// On this thread the node's namespace is another one.
		if err := w.Root.Do(func() error { return virtual.MakeOverlay(s.Link, by.FD()) }); err != nil {
			return err
		}
		c, err := link.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Return(s.Link.Index, job.FD(), s.Link.Name, s.Link.Place); err != nil {
			return fmt.Errorf("take the overlay %s to the job: %w", s.Link.Name, err)
		}
		return nil
	})
}

// Undo removes the interface, wherever the job has put it, and the nftables table. If the interface
// is not there, the job removed it, or it went with its namespace.
func (s *Overlay) Undo(w *world.World) error {
	if err := s.remove(w); err != nil && !errors.Is(err, virtual.ErrNotFound) {
		return fmt.Errorf("remove the overlay: %w", err)
	}
	return w.OnHost(func(*scan.View) error { return nft.RemoveForged(overlayTable(w.Job)) })
}

func (s *Overlay) remove(w *world.World) error {
	o := virtual.OverlayOf(cmp.Or(s.Leader, w.Job))
	look := func(*scan.View) error { return virtual.DeleteOverlay(o, w.Root.FD()) }
	err := w.InJob(look)
	missing := errors.Is(err, world.ErrNoNamespace) || errors.Is(err, virtual.ErrNotFound)
	switch {
	case missing && s.isShared(w, o):
		return nil
	case missing:
		return w.OnHost(look)
	}
	return err
}

// isShared tells whether another job's overlay has the same identity. Then the kernel refused to
// make this job's overlay, and the undo must not remove the other one.
func (s *Overlay) isShared(w *world.World, o virtual.Overlay) bool {
	t, err := w.Table.Read()
	return err != nil || slices.ContainsFunc(t.Claims, func(c table.Claim) bool {
		return c.Job != w.Job && virtual.OverlayOf(c.Job).ID == o.ID
	})
}
