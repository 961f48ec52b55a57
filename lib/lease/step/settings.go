package step

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/link"
	"gresnet/lib/link/inet"
	"gresnet/lib/link/snapshot"
)

// Settings keeps the settings of a network interface, because later steps take them away: the move of an RDMA device
// makes its IPoIB interface again, and the move of an interface takes its addresses and routes. It is an entry of its
// own, written before both moves and restored after both.
type Settings struct {
	Of        node.ID           `json:"hca"`
	Port      uint32            `json:"port"`
	Interface link.ID           `json:"interface"`
	Settings  snapshot.Settings `json:"settings"`
	GIDs      []netip.Addr      `json:"gids,omitempty"` // the port's GIDs for the interface's addresses
}

func (*Settings) Kind() string     { return "settings" }
func (s *Settings) Object() string { return s.Settings.Name }
func (s *Settings) HCA() node.ID   { return s.Of }

// Do makes the interface leave the groups that the node would stay in when the interface goes. The entry does the rest.
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

// Undo brings the interface, which is back by now, up and restores its settings. It leaves the settings that need a
// carrier for when all interfaces are up. Verify restores the rest: settings of an interface with a manager, and
// settings that it shares with interfaces that may have been away, too.
func (s *Settings) Undo(w *world.World) error {
	err := s.raise(w, s)
	if errors.Is(err, link.ErrAltNameTaken) {
		// Another interface of the lease may have the name, and loses it when it is given its own.
		w.Leave(s, func() error { return s.raise(w, s) })
		return nil
	}
	return err
}

// raise brings the interface up and restores the settings that need no carrier. It leaves the others, as the rest of a
// step, for when all interfaces are up.
func (s *Settings) raise(w *world.World, of world.Action) error {
	managed, err := s.isManaged(w)
	if err != nil {
		return err
	}
	stage := snapshot.Returned
	if managed {
		stage = snapshot.Managed
	}
	return w.OnHost(func(v *scan.View) error {
		i, err := v.Look(s.Interface)
		if err != nil {
			return fmt.Errorf("restore %s: %w", s.Settings.Name, err)
		}
		finish, err := v.Link.ApplyTo(i, s.Settings, stage)
		if finish != nil {
			w.Leave(of, finish)
		}
		return err
	})
}

// Verify reads the settings again, since udev may have changed some. It restores them once more, and returns an error
// that names the settings that still differ.
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

// verify restores the settings that differ, once. It returns an error that names those that differ then.
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

// GIDsOf returns the port's GIDs, without those of addresses that the interface is not to have: a manager does not give
// such an address any more, or it follows from another MAC.
func (s *Settings) GIDsOf(want snapshot.Settings) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(s.GIDs), func(gid netip.Addr) bool {
		return !slices.ContainsFunc(want.Addresses, func(m inet.Address) bool { return netip.AddrFrom16(m.Addr().Addr().As16()) == gid })
	})
}

// isManaged tells whether a program that runs gives the interface its addresses again.
func (s *Settings) isManaged(w *world.World) (bool, error) {
	if s.Settings.Manager == "" {
		return false, nil
	}
	return w.Managers.IsRunning(s.Settings.Manager)
}

// agree waits until the interface's manager has configured it, and returns the settings that the interface should have
// then. These are its former settings if it has no manager, or if the manager is too late.
func (s *Settings) agree(w *world.World, v *scan.View, index int) (snapshot.Settings, error) {
	managed, err := s.isManaged(w)
	if err != nil {
		return snapshot.Settings{}, err
	}
	if !managed {
		return s.Settings, nil
	}
	var m link.Manager
	var agreed snapshot.Settings
	var diff []string
	done, err := w.Until(poll.Managers, func() (_ bool, err error) {
		if m, err = link.ManagerOf(w.Managers.Run, index); err != nil || !m.Configured {
			return false, err
		}
		if agreed, diff, err = v.Link.AcceptManaged(index, s.Settings); err != nil || len(diff) == 0 {
			return true, err
		}
		return m.After(s.Settings.Taken) && time.Since(m.Said) > poll.ManagerQuiet, nil
	})
	switch {
	case err != nil:
		return snapshot.Settings{}, err
	case done && len(diff) == 0:
		return agreed, nil
	case m.Configured && m.After(s.Settings.Taken):
		w.Notice("%s is as %s configures it now: %s", s.Settings.Name, m.Name, strings.Join(diff, ", "))
		return agreed, nil
	}
	w.Notice("%s did not configure %s within %s: the interface gets back all that it had", s.Settings.Manager, s.Settings.Name, poll.Managers.Most)
	return s.Settings, nil
}
