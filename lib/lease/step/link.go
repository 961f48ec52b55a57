package step

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/link"
	"gresnet/lib/link/inet"
	"gresnet/lib/link/snapshot"
)

// Settings keeps the settings of a network interface, because later steps take them away: moving an
// RDMA device makes its IPoIB interface anew, and moving an interface takes its addresses and
// routes. It is a note of its own, written before both and restored after both.
type Settings struct {
	Of        node.ID           `json:"hca"`
	Port      uint32            `json:"port"`
	Interface link.ID           `json:"interface"`
	Settings  snapshot.Settings `json:"settings"`
	GIDs      []netip.Addr      `json:"gids,omitempty"` // that the port has for the interface's addresses
}

func (*Settings) Kind() string     { return "settings" }
func (s *Settings) Object() string { return s.Settings.Name }
func (s *Settings) HCA() node.ID   { return s.Of }

// Do makes the interface leave the groups that the node would stay in when the interface goes. All
// else that it does is its note.
func (s *Settings) Do(w *world.World) error {
	if !s.Settings.Joins() {
		return nil
	}
	return w.OnHost(func(v *scan.View) error {
		i, err := v.Interface(s.Interface)
		if err != nil {
			return err
		}
		return v.Link.LeaveGroups(i.Index, s.Settings)
	})
}

// Undo brings the interface, which is home by now, up and restores its settings; those that need
// its carrier when all are up. Verify restores the rest: settings of an interface with a manager,
// and those that it shares with interfaces that may have been away, too.
func (s *Settings) Undo(w *world.World) error {
	err := s.raiseNow(w)
	if errors.Is(err, link.ErrAltNameTaken) {
		// Another one of the lease may have it, and loses it when it is given its own.
		w.Leave(s, func() error { return s.raiseNow(w) })
		return nil
	}
	return err
}

// raiseNow restores the settings that need no carrier, and leaves the others for when all are up.
func (s *Settings) raiseNow(w *world.World) error {
	finish, err := s.raise(w)
	if finish != nil {
		w.Leave(s, finish)
	}
	return err
}

// raise returns a function that restores the settings that need the carrier, nil if it has one.
func (s *Settings) raise(w *world.World) (finish func() error, err error) {
	managed, err := s.isManaged(w)
	if err != nil {
		return nil, err
	}
	stage := snapshot.Home
	if managed {
		stage = snapshot.Managed
	}
	err = w.OnHost(func(v *scan.View) error {
		i, err := v.Look(s.Interface)
		if err != nil {
			return fmt.Errorf("restore %s: %w", s.Settings.Name, err)
		}
		finish, err = v.Link.ApplyTo(i, s.Settings, stage)
		return err
	})
	return finish, err
}

// Verify reads the settings again. udev may have changed some since: Verify restores them once
// more, and returns an error that names what then still differs.
func (s *Settings) Verify(w *world.World) error {
	return w.OnHost(func(v *scan.View) error {
		i, err := v.Interface(s.Interface)
		if err != nil {
			return fmt.Errorf("restore %s: %w", s.Settings.Name, err)
		}
		want, err := s.agree(w, v, i.Index)
		if err != nil {
			return err
		}
		if err := v.Link.AwaitLate(i.Index, want); err != nil {
			return err
		}
		if w.IsLate(s.Interface) {
			w.NoCarrier(s.Of, s.Port, s.Settings.Name)
		}
		if err := s.verify(v, i.Index, want); err != nil {
			return err
		}
		return s.awaitGIDs(w, v, want)
	})
}

// verify restores what differs once, and returns an error that names what differs then.
func (s *Settings) verify(v *scan.View, index int, want snapshot.Settings) error {
	diff, err := v.Link.Differences(index, want)
	if err != nil || len(diff) == 0 {
		return err
	}
	if err := snapshot.Finished(v.Link.Apply(index, want, snapshot.Settled)); err != nil {
		return err
	}
	if diff, err = v.Link.Differences(index, want); err == nil && len(diff) > 0 {
		err = world.DifferencesError{Interface: s.Settings.Name, What: diff}
	}
	return err
}

func (s *Settings) awaitGIDs(w *world.World, v *scan.View, want snapshot.Settings) error {
	err := w.AwaitGIDs(v, world.GIDs{HCA: s.Of, Port: s.Port, Interface: s.Interface, Want: s.GIDsOf(want)})
	if errors.Is(err, scan.ErrNotFound) {
		if gone, goneErr := w.HasLost(s.Of); gone || goneErr != nil {
			return goneErr // the steps of the RDMA device say so
		}
	}
	return err
}

// GIDsOf returns the GIDs, without those of addresses that the interface is not to have: a manager does
// not give them any more, or they follow from another MAC.
func (s *Settings) GIDsOf(want snapshot.Settings) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(s.GIDs), func(gid netip.Addr) bool {
		return !slices.ContainsFunc(want.Addresses, func(m inet.Address) bool { return netip.AddrFrom16(m.Addr().Addr().As16()) == gid })
	})
}

// Link moves a network interface into the job, or keeps it on the node, with its settings.
type Link struct {
	Of        node.ID      `json:"hca"`
	Port      uint32       `json:"port"`
	Interface link.ID      `json:"interface"`
	Name      netlink.Name `json:"name"`
	Index     int          `json:"index,omitempty"` // that it had on the node
	Keep      bool         `json:"keep,omitempty"`  // it stays on the node, though moving the RDMA device may have made it anew

	// The undo of a link needs none of these; the Settings note has them.
	Settings snapshot.Settings `json:"-"`
	GIDs     []netip.Addr      `json:"-"`
	Mode     rdma.Mode         `json:"-"`
}

func (*Link) Kind() string     { return "link" }
func (s *Link) Object() string { return string(s.Name) }
func (s *Link) HCA() node.ID   { return s.Of }

// Do moves the interface, brings it up and gives it its settings there; those that need its carrier
// when all are up.
func (s *Link) Do(w *world.World) error {
	if s.Keep {
		if err := s.bringHome(w); err != nil {
			return err
		}
		return s.stay(w)
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
	// Since kernel 6.17 the kernel makes an IPoIB interface anew where its RDMA device is: it is in the
	// job already. So it is if udev has made its name an alternative one since: the kernel moves it
	// first, and refuses the name then. Raise names it.
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

// lacksCarrier warns that the interface did not get a carrier in time, or adds that to what failed
// for want of it. The driver decides then which GIDs it has.
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

// stay gives the interface, which the kernel made anew at home, its settings there.
func (s *Link) stay(w *world.World) error {
	kept := &Settings{Of: s.Of, Port: s.Port, Interface: s.Interface, Settings: s.Settings}
	finish, err := kept.raise(w)
	if err != nil {
		return err
	}
	if finish != nil {
		w.Leave(s, finish)
	}
	if s.Settings.Manager != "" || s.Settings.Shares() {
		w.Leave(s, func() error { return s.share(w, kept) })
	}
	return nil
}

// share restores the settings that the interface's manager gives, or that it shares with others.
func (s *Link) share(w *world.World, kept *Settings) error {
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

// Undo brings the interface home, down and under its own name.
func (s *Link) Undo(w *world.World) error { return s.bringHome(w) }

func (s *Link) bringHome(w *world.World) error {
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
		return fmt.Errorf("bring %s home: %w", s.Name, err)
	}
	return nil
}

// look looks for the interface in the job and at home, and brings it home.
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
		// The kernel makes an IPoIB interface anew under the lowest free name. That may be the
		// name of another one that is away, which must find it free when it comes home.
		return v.Link.Park(i)
	})
}

// isRemade tells whether a driver has made the interface again since the lease began, after a fault of the firmware say.
// One that comes home has the index that it had. IPoIB's are made again whenever their RDMA device moves.
func (s *Link) isRemade(i link.Interface) bool {
	return !s.Keep && s.Index != 0 && i.Index != s.Index && i.ID.Kind != "ipoib"
}

// fetch brings the interface home from the namespace of the view. If another interface has its name
// meanwhile, it comes under a free one, and without alternative names that another has. Settings
// says so.
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
