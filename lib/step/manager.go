package step

import (
	"strings"
	"time"

	"gresnet/lib/manager"
	"gresnet/lib/scan"
	"gresnet/lib/snapshot"
	"gresnet/lib/world"
)

// managerQuiet is how long a manager must have said nothing new before other settings than the
// former ones count as its decision. It may not have seen yet that an interface came back which was
// away for moments.
const managerQuiet = time.Second

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
	for ; ; time.Sleep(20 * time.Millisecond) {
		m, err := manager.Of(w.Managers.Run, index)
		if err != nil {
			return snapshot.Settings{}, err
		}
		late := time.Now().After(w.Managers.Deadline()) || w.Context.Err() != nil
		if m.Configured {
			agreed, diff, err := v.Link.AcceptManaged(index, s.Settings)
			if err != nil || len(diff) == 0 {
				return agreed, err
			}
			if m.After(s.Settings.Taken) && (late || time.Since(m.Said) > managerQuiet) {
				w.Notice("%s is as %s configures it now: %s", s.Settings.Name, m.Name, strings.Join(diff, ", "))
				return agreed, nil
			}
		}
		if late {
			w.Notice("%s did not configure %s within %s: the interface gets back all that it had", s.Settings.Manager, s.Settings.Name, world.ManagerTimeout)
			return s.Settings, nil
		}
	}
}
