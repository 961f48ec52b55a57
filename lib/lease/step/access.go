package step

import (
	"errors"
	"fmt"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/state/table"
)

// Access restricts the node's own device nodes of an HCA to root while a job has it, and
// remembers who could open them. Moving an RDMA device makes its nodes again with the kernel's modes.
// Each HCA has this entry and may have no other, so it also has the state of the ports, and what they
// had counted.
type Access struct {
	ID    node.ID        `json:"hca"`
	Name  string         `json:"name"`
	Nodes []devnode.Node `json:"nodes"`

	Ports  []scan.Signal `json:"ports,omitempty"`  // empty: the undo looks at no port
	Health string        `json:"health,omitempty"` // what to do with an HCA if a port is worse

	Counters []counters.Port `json:"counters,omitempty"` // what the ports had counted
}

// healthQuarantine keeps an HCA with a worse port from later jobs; anything else is a warning.
const healthQuarantine = "quarantine"

func (*Access) Kind() string     { return "access" }
func (s *Access) Object() string { return s.Name }
func (s *Access) HCA() node.ID   { return s.ID }

// ReadAccess reads who may open the nodes of a device.
func ReadAccess(dev string, d scan.Device) (*Access, error) {
	nodes, err := d.Nodes(dev)
	return &Access{ID: d.ID, Name: d.Name, Nodes: nodes}, err
}

// KeepRestricted makes the nodes stay restricted after the job, whoever could open them before.
func (s *Access) KeepRestricted() {
	for i := range s.Nodes {
		s.Nodes[i].KeepRestricted()
	}
}

// Do restricts the nodes.
func (s *Access) Do(w *world.World) error {
	return w.OnHost(func(v *scan.View) error { return v.RestrictNodes(w.Dev, s.ID, s.Nodes) })
}

// Undo restores owner and mode of the nodes. Those of an HCA that jobs have slots of are restored
// when the last of these jobs frees its claim, see Reopen.
func (s *Access) Undo(w *world.World) error {
	if s.ID.IsSlot() {
		return nil
	}
	restore := func() error {
		return w.OnHost(func(v *scan.View) error { return v.RestoreNodes(w.Dev, s.ID, s.Nodes) })
	}
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
	if worse != nil && s.Health != healthQuarantine {
		w.Warn(s.ID, worse)
		return err
	}
	return hint.Join(worse, err)
}

// Reopen restores who could open the nodes of HCAs that no job has a slot of any more. What it
// cannot restore stays in the table: write the table even if Reopen fails.
func Reopen(w *world.World, t *table.Table) error {
	var failed []error
	for _, shared := range t.Unshared() {
		err := w.OnHost(func(v *scan.View) error { return v.RestoreNodes(w.Dev, shared.HCA, shared.Nodes) })
		if err != nil && !(errors.Is(err, scan.ErrNotFound) && w.IsLost(shared.HCA)) {
			failed = append(failed, fmt.Errorf("give the device nodes of %s their access again: %w", shared.Name, err))
			continue
		}
		t.Unshare(shared.HCA)
	}
	return hint.Join(failed...)
}
