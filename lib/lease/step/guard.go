package step

import (
	"fmt"
	"path/filepath"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/state"
	"gresnet/lib/state/lock"
)

// guard keeps everybody from the job's devices until the SPANK plugin has told the guard the job's
// cgroup, which Slurm makes after the prolog. Its entries contain the job's id, so its undo needs
// no note of its own.
func (s *Devices) guard(w *world.World, nodes []deviceNode) error {
	required := s.Guard == config.GuardRequired
	own, shared, must, err := s.choose(w, nodes)
	if err != nil {
		return err
	}
	if len(own) > 0 {
		err = w.Guard.Protect(w.Job, own, required)
	}
	if err == nil && len(shared) > 0 {
		err = w.Guard.Share(w.Job, shared, required)
	}
	switch {
	case err == nil:
		return nil
	case required && hint.Of(err) == "":
		return hint.With(err, "GN253 gresnet check says whether the node can; [access] guard says whether it must")
	case must:
		return err
	}
	w.Notice("other jobs of the same user may open this one's HCAs: %s", err)
	return w.Guard.Forget(w.Job)
}

// choose returns the devices to guard: those that only this job has, and those that others have, too.
// The setting may have changed since the others got theirs. A device that is guarded for them opens
// for this job only if the guard knows it, so then the job must have a guard, whatever the site wants
// by now. A device that others have without the guard stays without: a guard would lock them out,
// since it does not know their cgroups.
func (s *Devices) choose(w *world.World, nodes []deviceNode) (own, shared []bpf.Device, must bool, err error) {
	off, required := s.Guard == config.GuardOff, s.Guard == config.GuardRequired
	must = required
	for _, n := range nodes {
		if !n.slot {
			if !off {
				own = append(own, n.device)
			}
			continue
		}
		is, err := w.Guard.Shared(n.device)
		if err != nil {
			return nil, nil, false, err
		}
		other := ""
		if !is && !off {
			if other, err = otherJobWith(w, n.device); err != nil {
				return nil, nil, false, err
			}
		}
		switch {
		case is:
			must = true
			shared = append(shared, n.device)
		case other != "" && required:
			err := fmt.Errorf("guard device %d:%d: job %s has it and began without the guard", n.device.Major, n.device.Minor, other)
			return nil, nil, false, hint.With(err, `GN376 wait until the jobs with slots of the HCA have ended, or say guard = "auto" in [access] until then`)
		case other != "":
			w.Notice("other jobs of the same user may open device %d:%d: job %s has it and began without the guard", n.device.Major, n.device.Minor, other)
		case !off:
			shared = append(shared, n.device)
		}
	}
	return own, shared, must, nil
}

// otherJobWith returns another job whose user has a device in its lease, or nothing. Nodes that are
// root's need no guard, or are closed already.
func otherJobWith(w *world.World, d bpf.Device) (job string, err error) {
	nodes, err := w.Dir.OthersNodes()
	if err != nil {
		return "", err
	}
	for _, path := range nodes {
		major, minor, err := devnode.Number(path)
		if err != nil || major != d.Major || minor != d.Minor {
			continue // an epilog may have removed it
		}
		access, err := devnode.Stat(path)
		if err == nil && access.UID != 0 {
			return state.JobOfNode(path), nil
		}
	}
	return "", nil
}

// Unguard ends the guard for a job, whoever began it and whatever the site wants by now.
func Unguard(w *world.World, job uint32) error {
	held, err := lock.At(w.Context, guardLock(w))
	if err != nil {
		return err
	}
	return hint.Join(w.Guard.Forget(job), held.Close())
}

func guardLock(w *world.World) string { return filepath.Join(w.Locks, "guard") }
