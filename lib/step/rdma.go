package step

import (
	"errors"
	"fmt"

	"gresnet/lib/node"
	"gresnet/lib/scan"
)

// RDMA moves an RDMA device into the job; exclusive mode only.
type RDMA struct {
	ID   node.ID `json:"hca"`
	Name string  `json:"name"`
}

func (*RDMA) Kind() string     { return "rdma" }
func (s *RDMA) Object() string { return s.Name }
func (s *RDMA) HCA() node.ID   { return s.ID }

// Do moves the device.
func (s *RDMA) Do(w *World) error {
	ns, err := w.openJob()
	if err != nil {
		return err
	}
	defer ns.Close()
	return w.onHost(func(v *scan.View) error {
		d, err := v.Find(s.ID)
		if err != nil {
			return err
		}
		if err := v.Move(d, ns.FD()); err != nil {
			return fmt.Errorf("move RDMA device %s into the job: %w", d.Name, err)
		}
		return nil
	})
}

// Undo brings the device home and gives it its name. A device that is home
// already is not moved: the kernel would carry that out in full, and every
// user of the device would lose it.
func (s *RDMA) Undo(w *World) error {
	err := w.onHost(s.restoreName)
	if !errors.Is(err, scan.ErrNotFound) {
		return err
	}
	err = w.inJobWithSysfs(func(v *scan.View) error {
		d, err := v.Find(s.ID)
		if err != nil {
			return err
		}
		if err := v.Move(d, w.Host.FD()); err != nil {
			return fmt.Errorf("bring RDMA device %s home: %w", d.Name, err)
		}
		return nil
	})
	if errors.Is(err, errNoNamespace) || errors.Is(err, scan.ErrNotFound) {
		return fmt.Errorf("bring RDMA device %s home: it is neither in the root namespace nor in the job's", s.Name)
	}
	if err != nil {
		return err
	}
	return w.onHost(s.restoreName)
}

func (s *RDMA) restoreName(v *scan.View) error {
	d, err := v.Find(s.ID)
	if err != nil || d.Name == s.Name {
		return err
	}
	if err := v.Rename(d, s.Name); err != nil {
		return fmt.Errorf("rename RDMA device %s to %s: %w", d.Name, s.Name, err)
	}
	return nil
}
