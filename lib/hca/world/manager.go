package world

import (
	"errors"
	"fmt"
	"io/fs"

	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/proc"
)

// Managers is what a run knows of the programs that configure interfaces by themselves.
type Managers struct {
	Run fs.FS // where they keep their state: the node's /run

	running map[string]bool
}

// IsRunning tells whether a manager runs. If only a container runs one of that name, or there are too
// many processes to be looked at, the run waits for it in vain, and nothing worse happens.
func (m *Managers) IsRunning(name string) (bool, error) {
	if running, known := m.running[name]; known {
		return running, nil
	}
	running, err := proc.Runs(name)
	if errors.Is(err, detach.ErrHeldUp) {
		running, err = true, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for %s: %w", name, err)
	}
	if m.running == nil {
		m.running = map[string]bool{}
	}
	m.running[name] = running
	return running, nil
}
