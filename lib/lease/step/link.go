package step

import (
	"errors"
	"fmt"
	"net/netip"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
)

// Link moves a network interface into the job, or keeps it on the node, with its settings.
type Link struct {
	Of        node.ID      `json:"hca"`
	Port      uint32       `json:"port"`
	Interface link.ID      `json:"interface"`
	Name      netlink.Name `json:"name"`
	Index     int          `json:"index,omitempty"` // its index on the node
	Keep      bool         `json:"keep,omitempty"`  // it stays on the node, where the move of the RDMA device may make it again

	// The undo of a link needs none of these; the Settings entry has them.
	Settings snapshot.Settings `json:"-"`
	GIDs     []netip.Addr      `json:"-"`
	Mode     rdma.Mode         `json:"-"`
}

func (*Link) Kind() string     { return "link" }
func (s *Link) Object() string { return string(s.Name) }
func (s *Link) HCA() node.ID   { return s.Of }

// Do moves the interface, brings it up and gives it its settings there. It leaves the settings that need a carrier for
// when all interfaces are up.
func (s *Link) Do(w *world.World) error {
	if s.Keep {
		if err := s.bringBack(w); err != nil {
			return err
		}
		return s.restoreKept(w)
	}
	job, err := w.JobNS()
	if err != nil {
		return err
	}
	err = w.OnHost(func(v *scan.View) error {
		i, err := v.Interface(s.Interface)
		if err != nil {
			return err
		}
		if len(s.Settings.Children) > 0 {
			if err := v.Link.DownChildren(i.Index); err != nil {
				return err
			}
		}
		if err := v.Link.Leave(i); err != nil {
			return err
		}
		if err := v.Link.Move(i.Index, job.FD(), string(s.Name), s.Settings.Up); err != nil {
			return fmt.Errorf("move %s into the job: %w", i.Name, err)
		}
		return nil
	})
	// Since kernel 6.17 the kernel makes an IPoIB interface again where its RDMA device is. The interface is in the job
	// then. It is there, too, if udev has made its name an alternative one: the kernel moves the interface first, and
	// refuses the name then. ApplyTo names it.
	moved := err
	if err != nil && !errors.Is(err, link.ErrNotFound) && !errors.Is(err, link.ErrNameTaken) {
		return err
	}
	var finish func() error
	err = w.InJob(func(v *scan.View) error {
		i, err := v.Look(s.Interface)
		if err != nil && errors.Is(moved, link.ErrNameTaken) {
			return moved
		}
		if err != nil {
			return fmt.Errorf("configure %s: %w", s.Name, err)
		}
		finish, err = v.Link.ApplyTo(i, s.Settings, snapshot.InJob)
		return err
	})
	if err != nil {
		return err
	}
	if finish == nil {
		s.leaveGIDs(w)
		return nil
	}
	w.Leave(s, func() error {
		err := w.InJob(func(*scan.View) error { return finish() })
		if w.IsLate(s.Interface) {
			return s.lacksCarrier(w, err)
		}
		s.leaveGIDs(w)
		return err
	})
	return nil
}

func (s *Link) leaveGIDs(w *world.World) {
	if len(s.GIDs) > 0 {
		w.Leave(s, func() error { return s.awaitGIDs(w) })
	}
}

// lacksCarrier warns that the interface did not get a carrier in time, or says so in the error that follows from it. The
// driver decides then which GIDs the port has.
func (s *Link) lacksCarrier(w *world.World, failed error) error {
	hca := s.Of.String()
	_ = w.WithHCAs(s.Mode, func(v *scan.View) error {
		d, err := v.Find(s.Of)
		if err == nil {
			hca = d.Name
		}
		return err // only for the name
	})
	lacks := world.CarrierError{Interface: string(s.Name), HCA: hca, Port: s.Port}
	if failed != nil {
		return fmt.Errorf("%w: %w", lacks, failed)
	}
	w.Warn(s.Of, lacks)
	return nil
}

// restoreKept restores the settings of an interface that the kernel has made again on the node.
func (s *Link) restoreKept(w *world.World) error {
	kept := &Settings{Of: s.Of, Port: s.Port, Interface: s.Interface, Settings: s.Settings}
	if err := kept.raise(w, s); err != nil {
		return err
	}
	if s.Settings.Manager != "" || s.Settings.Shares() {
		w.Leave(s, func() error { return s.restoreShared(w, kept) })
	}
	return nil
}

// restoreShared restores the settings that the interface's manager gives, or that it shares with others.
func (s *Link) restoreShared(w *world.World, kept *Settings) error {
	if s.Settings.Manager != "" {
		return kept.Verify(w)
	}
	err := w.OnHost(func(v *scan.View) error {
		i, err := v.Interface(s.Interface)
		if err != nil {
			return err
		}
		return snapshot.Finished(v.Link.Apply(i.Index, s.Settings, snapshot.Settled))
	})
	if err != nil {
		// Another interface of the lease that shares them is on its way. The lease's end restores all.
		w.Notice("while the job runs, %s lacks what it shares with other interfaces: %s", s.Name, err)
	}
	return nil
}

// Undo moves the interface back, down and under its own name.
func (s *Link) Undo(w *world.World) error { return s.bringBack(w) }

func (s *Link) bringBack(w *world.World) error {
	// A job has few interfaces, and a node may have many: look into the job first.
	err := s.look(w)
	if errors.Is(err, link.ErrNotFound) {
		lost := func() (bool, error) { return w.HasLostInterface(s.Of, s.Interface) }
		err = w.Await(lost, link.ErrNotFound, func() error {
			err := s.look(w)
			if errors.Is(err, link.ErrNotFound) && w.OthersHave(s.Of) {
				return nil
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("return %s to the node: %w", s.Name, err)
	}
	return nil
}

// look looks for the interface in the job and on the node, and moves it back.
func (s *Link) look(w *world.World) error {
	err := w.InJob(func(v *scan.View) error { return s.fetch(w, v) })
	if !errors.Is(err, world.ErrNoNamespace) && !errors.Is(err, link.ErrNotFound) {
		return err
	}
	return w.OnHost(func(v *scan.View) error {
		i, err := v.Interface(s.Interface)
		if err != nil {
			return err
		}
		// The epilog of a job that lost its HCA has said so already.
		if !w.Dir.IsLost() && s.isRemade(i) {
			w.Warn(s.Of, fmt.Errorf("%s is another one than the job had: its driver made it again on the node while the job ran, and the job was without it from then on", s.Name))
		}
		if i.Name == string(s.Name) {
			return nil
		}
		// The kernel makes an IPoIB interface again under the lowest free name. That may be the
		// name of another one that is away, which must find it free when it comes back.
		return v.Link.Park(i)
	})
}

// isRemade tells whether a driver has made the interface again since the lease began, after a fault of the firmware say.
// One that comes back has the index that it had. IPoIB's are made again whenever their RDMA device moves.
func (s *Link) isRemade(i link.Interface) bool {
	return !s.Keep && s.Index != 0 && i.Index != s.Index && i.ID.Kind != "ipoib"
}

// fetch moves the interface back from the namespace of the view, whatever name the job has given it: it comes under
// its own. If another interface has that name by now, it comes under a free one, and without its alternative names.
// The undo of its Settings gives it these names, or says that another interface has them.
func (s *Link) fetch(w *world.World, v *scan.View) error {
	i, err := v.Interface(s.Interface)
	if err != nil {
		return err
	}
	left := v.Link.Leave(i)
	err = v.Link.Return(i.Index, w.Root.FD(), string(s.Name), s.Index)
	if !errors.Is(err, link.ErrNameTaken) {
		return hint.Join(err, left)
	}
	// If it is an alternative name, the interface moves under no name.
	if err = v.Link.DropAltNames(i.Index); err == nil {
		err = v.Link.Return(i.Index, w.Root.FD(), string(s.Name), s.Index)
	}
	if errors.Is(err, link.ErrNameTaken) {
		err = v.Link.Return(i.Index, w.Root.FD(), link.FreeName, s.Index)
	}
	if errors.Is(err, link.ErrNotFound) {
		return left // it went at once, and only its name was refused
	}
	return hint.Join(err, left)
}

// awaitGIDs waits until the port has the GIDs that it had for the interface's addresses.
func (s *Link) awaitGIDs(w *world.World) error {
	return w.WithHCAs(s.Mode, func(v *scan.View) error {
		return w.AwaitGIDs(v, world.GIDs{HCA: s.Of, Port: s.Port, Interface: s.Interface, Want: s.GIDs})
	})
}
