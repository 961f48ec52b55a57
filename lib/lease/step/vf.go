package step

import (
	"cmp"

	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/sriov"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/node"
)

// VF has the PF do for a VF what the site wants for the job. Each VF has this note, also if the
// site wants nothing: a job that changes the MAC of a trusted VF changes the PF's record.
type VF struct {
	ID   node.ID          `json:"hca"`
	Name string           `json:"name"` // of the RDMA device, for people
	Had  sriov.Attributes `json:"had"`  // what the VF gets back
	Want sriov.Attributes `json:"want"`

	Representor *sriov.Representor `json:"representor,omitempty"` // nil outside of switchdev mode

	// Rebind is what gives the VF an address of the job's own, nil if nothing does. It has a note of its
	// own, which comes later; this copy is for an unwinding that cannot read that.
	Rebind *Rebind `json:"rebind,omitempty"`
}

func (*VF) Kind() string     { return "vf" }
func (s *VF) Object() string { return s.Name }
func (s *VF) HCA() node.ID   { return s.ID }

// Carried returns the copy of a later note.
func (s *VF) Carried() []Step {
	if s.Rebind == nil {
		return nil
	}
	return []Step{s.Rebind}
}

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
	if err := s.Had.Set(w.Sys, s.ID); !isGone(err) {
		failed = hint.Join(failed, err)
	}
	return failed
}
