package step

import (
	"cmp"
	"errors"
	"io/fs"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/sriov"
)

// VF has the PF do for a VF what the site wants for the job. Each VF has this entry, also if the
// site wants nothing: a job that changes the MAC of a trusted VF changes the PF's record.
type VF struct {
	ID   node.ID          `json:"hca"`
	Name string           `json:"name"` // of the RDMA device, for people
	Had  sriov.Attributes `json:"had"`  // what the VF gets back
	Want sriov.Attributes `json:"want"`

	Representor *sriov.Representor `json:"representor,omitempty"` // nil outside of switchdev mode
}

func (*VF) Kind() string     { return "vf" }
func (s *VF) Object() string { return s.Name }
func (s *VF) HCA() node.ID   { return s.ID }

// Sets says what the PF does for the VF.
func (s *VF) Sets() string { return cmp.Or(s.Representor.Sets(), s.Want.String()) }

// Do sets what the site wants.
func (s *VF) Do(w *world.World) error {
	if err := s.Want.Set(w.Sys, s.ID); err != nil {
		return err
	}
	return s.Representor.Do(w.Context, w.Sys, s.ID)
}

// Undo restores what was set. A VF that its PF does not have any more has nothing to restore.
func (s *VF) Undo(w *world.World) error {
	failed := s.Representor.Undo(w.Context, w.Sys, s.ID, w.Notice)
	err := s.Had.Set(w.Sys, s.ID)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, sriov.ErrNoVF) {
		failed = hint.Join(failed, err)
	}
	return failed
}
