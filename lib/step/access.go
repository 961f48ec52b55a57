package step

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"gresnet/lib/char"
	"gresnet/lib/node"
	"gresnet/lib/scan"
)

// Access closes the node's own device nodes of an HCA to everybody but root
// while a job has it, and remembers who could open them. Moving an RDMA device
// makes its nodes anew with the kernel's modes. It is the one note that each HCA
// has, so it also has what the ports were.
type Access struct {
	ID    node.ID   `json:"hca"`
	Name  string    `json:"name"`
	Nodes []DevNode `json:"nodes"`

	// Without Ports, which notes of earlier versions do not have, none is looked at.
	Ports  []Port `json:"ports,omitempty"`
	Health string `json:"health,omitempty"` // what becomes of an HCA with a worse port
}

// HealthQuarantine keeps an HCA with a worse port from later jobs; anything else is a warning.
const HealthQuarantine = "quarantine"

// DevNode is one device node, told by what it is for: its number changes.
type DevNode struct {
	Kind   string      `json:"kind"`
	Port   uint32      `json:"port,omitempty"`
	Access char.Access `json:"access"`
}

func (*Access) Kind() string     { return "access" }
func (s *Access) Object() string { return s.Name }
func (s *Access) HCA() node.ID   { return s.ID }

// ReadAccess reads who may open the nodes of a device. Nodes that are not
// there (no udev, no devtmpfs) are not restored either.
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

// KeepClosed has the nodes stay closed when the job has ended, whoever could open
// them before.
func (s *Access) KeepClosed() {
	for i := range s.Nodes {
		s.Nodes[i].Access = char.RootAlone()
	}
}

// Do closes the nodes.
func (s *Access) Do(w *World) error {
	return s.set(w, func(DevNode) char.Access { return char.RootAlone() })
}

// Undo gives the nodes, whatever their numbers are now, their owner and mode again.
func (s *Access) Undo(w *World) error {
	restore := func() error { return s.set(w, func(n DevNode) char.Access { return n.Access }) }
	err := restore()
	if errors.Is(err, scan.ErrNotFound) {
		err = w.await(func() (bool, error) { return w.gone(s.ID) }, scan.ErrNotFound, restore)
	}
	if errors.Is(err, ErrGone) {
		return fmt.Errorf("give the device nodes of %s their access again: %w", s.Name, err)
	}
	return err
}

// Verify does so again: udev, which sets the modes of nodes that come anew, may
// have had the last word. Then the ports are looked at.
func (s *Access) Verify(w *World) error {
	if err := s.Undo(w); err != nil || len(s.Ports) == 0 {
		return err
	}
	return s.checkPorts(w)
}

func (s *Access) set(w *World, access func(DevNode) char.Access) error {
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
