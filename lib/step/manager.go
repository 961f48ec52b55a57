package step

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"gresnet/lib/manager"
	"gresnet/lib/proc"
	"gresnet/lib/scan"
	"gresnet/lib/snapshot"
)

const (
	// managerTimeout bounds what one run waits for managers, of however many
	// interfaces: they configure all at once, and Slurm waits for the epilog.
	managerTimeout = 10 * time.Second
	// managerQuiet is how long a manager must have said nothing new for what it
	// did otherwise than before to be taken as its decision. It may not have seen
	// yet that an interface came back which was away for moments.
	managerQuiet = time.Second
)

// Managers is what a run knows of the programs that configure interfaces by themselves.
type Managers struct {
	Run fs.FS // where they keep their state: the node's /run

	until   time.Time // zero: none was waited for yet
	running map[string]bool
}

// isRunning tells whether a manager runs. One in a container has the name, too:
// then it is waited for in vain, and no more.
func (m *Managers) isRunning(name string) (bool, error) {
	if running, known := m.running[name]; known {
		return running, nil
	}
	list, err := proc.Named(name)
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", name, err)
	}
	if m.running == nil {
		m.running = map[string]bool{}
	}
	m.running[name] = len(list) > 0
	return m.running[name], nil
}

// deadline is until when this run waits.
func (m *Managers) deadline() time.Time {
	if m.until.IsZero() {
		m.until = time.Now().Add(managerTimeout)
	}
	return m.until
}

// isManaged tells an interface that somebody else gives its addresses again.
func (s *Settings) isManaged(w *World) (bool, error) {
	if s.Settings.Manager == "" {
		return false, nil
	}
	return w.Managers.isRunning(s.Settings.Manager)
}

// agree waits until the interface's manager has configured it, and is what the
// interface is to have then. Without a manager, or with one that does not come
// to it in time, that is what it had.
func (s *Settings) agree(w *World, v *scan.View, index int) (snapshot.Settings, error) {
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
		late := time.Now().After(w.Managers.deadline()) || w.Context.Err() != nil
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
			w.Notice("%s did not configure %s within %s: the interface gets back all that it had", s.Settings.Manager, s.Settings.Name, managerTimeout)
			return s.Settings, nil
		}
	}
}
