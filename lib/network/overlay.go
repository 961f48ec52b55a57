package network

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/gres"
	"gresnet/lib/link"
	"gresnet/lib/nft"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/table"
	"gresnet/lib/virtual"
	"gresnet/lib/world"
)

// Overlay makes the job's end of the network between its nodes. Its undo needs only the job's id,
// which determines the interface's identity.
type Overlay struct {
	Name    string `json:"name"`
	Address string `json:"address"`

	Link virtual.Overlay `json:"-"`

	// Services lists the ports by which the names of the job's nodes mean the nodes themselves. Out
	// leads there. If Out is nil, these ports mean the job, too.
	Services []int   `json:"-"`
	Out      *Uplink `json:"-"`
	Slurmd   int     `json:"-"` // slurmd's port; it calls jobs on other nodes back

	srun bool
}

// NewOverlay returns the step that makes an overlay.
func NewOverlay(o virtual.Overlay) *Overlay {
	return &Overlay{Name: o.Name, Address: o.Address.String(), Link: o}
}

func (*Overlay) Kind() string     { return "overlay" }
func (s *Overlay) Object() string { return s.Name }
func (*Overlay) HCA() node.ID     { return node.ID{} }

// overlayTable returns the name of the nftables table that drops packets which users forge.
func overlayTable(job uint32) string { return fmt.Sprintf("gresnet_overlay_%d", job) }

// Do makes the interface in the job and adds the other nodes. Before that, it makes the node drop
// packets that users forge.
func (s *Overlay) Do(w *world.World) error {
	job, err := w.JobNS()
	if err != nil {
		return err
	}
	err = w.OnHost(func(*scan.View) error {
		if err := virtual.HoldsLowPorts(); err != nil {
			return err
		}
		if err := nft.DropForged(overlayTable(w.Job), s.Link.Port, s.Link.ID); err != nil {
			return err
		}
		return virtual.MakeOverlay(s.Link, job.FD())
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
	return w.InJob(func(v *scan.View) error {
		if err := virtual.RaiseOverlay(s.Link); err != nil {
			return err
		}
		s.serve(w, v)
		return nil
	})
}

// serve leads connections to Services to the nodes. It needs no undo, because its rules go with the
// namespace. If it fails, the job lacks only a convenience.
func (s *Overlay) serve(w *world.World, v *scan.View) {
	if s.Out == nil || s.Out.Lacking != nil || len(s.Services) == 0 {
		return
	}
	services := nft.Services{Network: s.Link.Address.Masked(), Ports: s.Services, Out: s.Out.link(w).Index}
	if s.Out.Type == "veth" {
		services.Nodes = append(services.Nodes, nft.Node{Inside: s.Link.Address.Addr(), Real: s.Out.Pool.Gateway})
	}
	for _, p := range s.Link.Peers {
		if p.Node.Is4() {
			services.Nodes = append(services.Nodes, nft.Node{Inside: p.Address, Real: p.Node})
		}
	}
	services.Calls = s.calls(w, v)
	if err := nft.Serve(services); err != nil {
		w.Notice("the names of the job's nodes do not lead to the nodes' own services: %s", err)
		return
	}
	// The uplink has no IPv6. Where a node's name means the job, slurmd is reached as a service only.
	reaches := s.Out.Pool.Auto && s.Link.Node.Is4() && slices.Contains(s.Services, s.Slurmd)
	s.srun = reaches && (len(s.Link.Peers) == 0 || services.Calls != nil)
}

// Srun tells, after Do, whether srun works in the job: it reaches slurmctld by an automatic uplink,
// and slurmd on the job's other nodes calls it back. A job without an overlay has a nil one.
func (s *Overlay) Srun() bool { return s != nil && s.srun }

// Calls tells whether the job can call slurmd on other nodes, which then calls it back.
func (s *Overlay) Calls() bool {
	return len(s.Link.Peers) > 0 && slices.Contains(s.Services, s.Slurmd)
}

// calls makes the job's namespace forward calls of slurmd and calls back. It returns what lib/nft
// needs to let only these pass, or nil if there is no way back.
func (s *Overlay) calls(w *world.World, v *scan.View) *nft.Calls {
	if !s.Out.Back.IsValid() || s.Out.Back.Bits() > s.Link.Address.Bits() {
		return nil
	}
	for _, index := range []int{s.Link.Index, s.Out.link(w).Index} {
		i, err := v.Link.Get(index)
		if err == nil {
			err = link.Forward(i.Name, true)
		}
		if err != nil {
			w.Notice("slurmd on the job's other nodes does not call it back: %s", err)
			return nil
		}
	}
	return &nft.Calls{Port: s.Slurmd, Inside: s.Link.Index, Own: s.Link.Address.Addr(), Gateway: s.Out.Pool.Gateway, Back: s.Out.Back}
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
	o := virtual.OverlayOf(w.Job)
	look := func(*scan.View) error { return virtual.DeleteOverlay(o) }
	err := w.InJob(look)
	missing := errors.Is(err, world.ErrNoNamespace) || errors.Is(err, virtual.ErrNotFound)
	switch {
	case missing && s.isShared(w, o):
		return nil
	case missing:
		return w.Elsewhere(virtual.ErrNotFound, look)
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
