package step

import (
	"strings"
	"time"

	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/link"
	"gresnet/lib/link/snapshot"
)

// isManaged tells whether a program that runs gives the interface its addresses again.
func (s *Settings) isManaged(w *world.World) (bool, error) {
	if s.Settings.Manager == "" {
		return false, nil
	}
	return w.Managers.IsRunning(s.Settings.Manager)
}

// agree waits until the interface's manager has configured it, and returns the settings that the
// interface should have then. Without a manager, or if the manager is too late, these are the
// settings that it had.
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
