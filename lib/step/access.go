package step

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"gresnet/lib/char"
	"gresnet/lib/counters"
	"gresnet/lib/hint"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/world"
)

// Access closes the node's own device nodes of an HCA to everybody but root while a job has it, and
// remembers who could open them. Moving an RDMA device makes its nodes anew with the kernel's modes.
// Each HCA has this note and may have no other, so it also has the state of the ports, and what they
// had counted.
type Access struct {
	ID    node.ID   `json:"hca"`
	Name  string    `json:"name"`
	Nodes []DevNode `json:"nodes"`

	// Ports is empty in the notes of earlier versions: then the undo looks at no port.
	Ports  []world.Port `json:"ports,omitempty"`
	Health string       `json:"health,omitempty"` // what to do with an HCA if a port is worse

	Counters []counters.Port `json:"counters,omitempty"` // what the ports had counted
}

// HealthQuarantine keeps an HCA with a worse port from later jobs; anything else is a warning.
const HealthQuarantine = "quarantine"

// DevNode is one device node. Kind and Port tell which: its number changes.
type DevNode struct {
	Kind   string      `json:"kind"`
	Port   uint32      `json:"port,omitempty"`
	Access char.Access `json:"access"`
}

func (*Access) Kind() string     { return "access" }
func (s *Access) Object() string { return s.Name }
func (s *Access) HCA() node.ID   { return s.ID }

// ReadAccess reads who may open the nodes of a device. It passes over nodes that are not there (no
// udev, no devtmpfs), and so nothing restores them.
func ReadAccess(dev string, d scan.Device) (*Access, error) {
	s := &Access{ID: d.ID, Name: d.Name}
	for _, c := range d.Chars {
		access, err := char.Stat(filepath.Join(dev, c.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		s.Nodes = append(s.Nodes, DevNode{Kind: c.Kind, Port: c.Port, Access: access})
	}
	return s, nil
}

// KeepClosed makes the nodes stay closed after the job, whoever could open them before.
func (s *Access) KeepClosed() {
	for i := range s.Nodes {
		s.Nodes[i].Access = char.RootAlone()
	}
}

// Do closes the nodes.
func (s *Access) Do(w *world.World) error {
	return s.set(w, func(DevNode) char.Access { return char.RootAlone() })
}

// Undo restores owner and mode of the nodes, whatever their numbers are now.
func (s *Access) Undo(w *world.World) error {
	restore := func() error { return s.set(w, func(n DevNode) char.Access { return n.Access }) }
	err := restore()
	if errors.Is(err, scan.ErrNotFound) {
		err = w.Await(func() (bool, error) { return w.HasLost(s.ID) }, scan.ErrNotFound, restore)
	}
	if errors.Is(err, world.ErrGone) {
		return fmt.Errorf("give the device nodes of %s their access again: %w", s.Name, err)
	}
	return err
}

// Verify does so again, because udev may have set other modes since. Then it looks at the ports.
func (s *Access) Verify(w *world.World) error {
	if err := s.Undo(w); err != nil || len(s.Ports) == 0 {
		return err
	}
	worse, err := w.AwaitPorts(s.ID, s.Name, s.Ports)
	if worse != nil && s.Health != HealthQuarantine {
		w.Warn(s.ID, worse)
		return err
	}
	return hint.Join(worse, err)
}

func (s *Access) set(w *world.World, access func(DevNode) char.Access) error {
	return w.OnHost(func(v *scan.View) error {
		d, err := v.Find(s.ID)
		if err != nil {
			return err
		}
		if err := v.MAD(&d); err != nil {
			return err
		}
		for _, n := range s.Nodes {
			name := nameOf(d, n)
			if name == "" {
				continue // its module was unloaded (ib_umad): there is no node to restore
			}
			if err := char.Set(filepath.Join(w.Dev, name), access(n)); err != nil {
				return err
			}
		}
		return nil
	})
}

func nameOf(d scan.Device, n DevNode) string {
	for _, c := range d.Chars {
		if c.Kind == n.Kind && c.Port == n.Port {
			return c.Name
		}
	}
	return ""
}
