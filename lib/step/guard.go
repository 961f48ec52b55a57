package step

import (
	"path/filepath"

	"gresnet/lib/bpf"
	"gresnet/lib/config"
	"gresnet/lib/hint"
	"gresnet/lib/lock"
	"gresnet/lib/world"
)

// guarded are the devices of a job's HCAs: its own, and those that others have, too.
type guarded struct{ own, shared []bpf.Device }

// guard keeps everybody from the job's devices until the SPANK plugin has told the guard the job's
// cgroup, which Slurm makes after the prolog. Its entries contain the job's id, so its undo needs
// no note of its own.
func (s *Devices) guard(w *world.World, devices guarded) error {
	if s.Guard == "" || s.Guard == config.GuardOff {
		return nil
	}
	held, err := lock.At(w.Context, guardLock(w))
	if err != nil {
		return err
	}
	defer held.Close()
	required := s.Guard == config.GuardRequired
	if len(devices.own) > 0 {
		err = w.Guard.Protect(w.Job, devices.own, required)
	}
	if err == nil && len(devices.shared) > 0 {
		err = w.Guard.Share(w.Job, devices.shared, required)
	}
	if err == nil {
		return nil
	}
	if required {
		if hint.Of(err) == "" {
			err = hint.With(err, "GN253 gresnet-prolog check says whether the node can; [access] guard says whether it must")
		}
		return err
	}
	w.Notice("other jobs of the same user may open this one's HCAs: %s", err)
	return w.Guard.Forget(w.Job)
}

// unguard ends the guard for the job, whoever began it and whatever the site wants by now.
func unguard(w *world.World) error {
	held, err := lock.At(w.Context, guardLock(w))
	if err != nil {
		return err
	}
	return hint.Join(w.Guard.Forget(w.Job), held.Close())
}

func guardLock(w *world.World) string { return filepath.Join(w.Locks, "guard") }
