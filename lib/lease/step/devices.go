package step

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/state"
)

// Devices makes the lease's own /dev/infiniband: the uverbs devices of its HCAs and what else the
// site gives, for the job's user alone, and rdma_cm, whose ids are bound to their user's namespace.
// It comes after all moves, because each assigns the numbers again.
type Devices struct {
	HCAs []node.ID `json:"-"`
	Mode rdma.Mode `json:"-"`
	// Kinds are the kinds of nodes, as scan.Char has them: uverbs, umad, issm, hfi1.
	Kinds []string `json:"-"`
	CM    bool     `json:"-"` // rdma_cm, too
	UID   uint32   `json:"-"`
	GID   uint32   `json:"-"`
	// Guard says how the site uses the guard, as package config has it; empty in exclusive mode,
	// where the kernel keeps jobs apart.
	Guard string `json:"-"`
}

func (*Devices) Kind() string   { return "devices" }
func (*Devices) Object() string { return "" }
func (*Devices) HCA() node.ID   { return node.ID{} }

// Do makes the device nodes.
func (s *Devices) Do(w *world.World) error {
	if err := os.Mkdir(w.Dir.Devices(), 0o700); err != nil {
		return err
	}
	if err := state.MountDevices(w.Dir.Devices()); err != nil {
		return err
	}
	look := w.OnHost
	if s.Mode == rdma.Exclusive {
		look = w.InJob
	}
	var nodes []deviceNode
	err := look(func(v *scan.View) (err error) {
		nodes, err = s.findNodes(v)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.makeNodes(w, nodes); err != nil {
		return err
	}
	if !s.CM {
		return nil
	}
	return makeCM(w)
}

// deviceNode is a device node that the lease is to have.
type deviceNode struct {
	name   string
	device bpf.Device
	slot   bool // other jobs may have the device, too
}

func (s *Devices) findNodes(v *scan.View) (nodes []deviceNode, err error) {
	seen := map[node.ID]bool{} // a job may have several slots of an HCA
	for _, id := range s.HCAs {
		if seen[id.Whole()] {
			continue
		}
		seen[id.Whole()] = true
		d, err := v.Find(id)
		if err != nil {
			return nil, err
		}
		if len(d.Chars) == 0 {
			return nil, fmt.Errorf("make the uverbs device of %s: the kernel has none, is ib_uverbs loaded?", d.Name)
		}
		// A kernel without ib_umad has none to give.
		if slices.Contains(s.Kinds, "umad") || slices.Contains(s.Kinds, "issm") {
			if err := v.MAD(&d); err != nil {
				return nil, err
			}
		}
		for _, c := range d.Chars {
			if slices.Contains(s.Kinds, c.Kind) {
				nodes = append(nodes, deviceNode{c.Name, bpf.Device{Major: c.Major, Minor: c.Minor}, id.IsSlot()})
			}
		}
	}
	return nodes, nil
}

// makeNodes makes the device nodes when their guard is there. It does both under the guard's lock: if
// a prolog that has the lock finds a node in another lease, that lease has the guard that it gets.
func (s *Devices) makeNodes(w *world.World, nodes []deviceNode) error {
	if s.Guard != "" {
		held, err := state.LockFile(w.Context, guardLock(w))
		if err != nil {
			return err
		}
		defer held.Close()
		if err := s.guard(w, nodes); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		access := devnode.Access{Mode: 0o600, UID: s.UID, GID: s.GID}
		if n.slot && sysfs.IsHFI(n.name) { // several users cannot have it
			w.Notice("jobs that share %s cannot open /dev/%[1]s", n.name)
			continue
		}
		if err := devnode.Give(w.Dev, w.Dir.Devices(), n.name, n.device.Major, n.device.Minor, access); err != nil {
			return err
		}
	}
	return nil
}

// makeCM adds rdma_cm, if the kernel has it (module rdma_ucm).
func makeCM(w *world.World) error {
	major, minor, err := sysfs.Dev(w.Sys, "misc", "rdma_cm")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return devnode.Make(filepath.Join(w.Dir.Devices(), "rdma_cm"), major, minor, devnode.Access{Mode: 0o666})
}

// Undo removes the device nodes, and then the guard.
func (s *Devices) Undo(w *world.World) error {
	if err := RestrictNodes(w); err != nil {
		return err
	}
	if err := state.Unmount(w.Dir.Devices()); err != nil {
		return err
	}
	return Unguard(w, w.Job)
}

// RestrictNodes gives the lease's device nodes to root alone. A user may have one of them, or their folder, open as a path:
// such a node opens the HCA as soon as that is back.
func RestrictNodes(w *world.World) error {
	nodes, err := filepath.Glob(filepath.Join(w.Dir.Devices(), "*"))
	if err != nil {
		return err
	}
	for _, path := range nodes {
		if err := devnode.Set(path, devnode.RootAlone()); err != nil {
			w.Notice("restrict what is in the lease's dev: %s", err)
		}
	}
	return nil
}

// guard keeps everybody from the job's devices until the SPANK plugin has told the guard the job's
// cgroup, which Slurm makes after the prolog. Its entries contain the job's id, so its undo needs
// no entry of its own.
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
// root's need no guard, or are restricted already.
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
	held, err := state.LockFile(w.Context, guardLock(w))
	if err != nil {
		return err
	}
	return hint.Join(w.Guard.Forget(job), held.Close())
}

func guardLock(w *world.World) string { return filepath.Join(w.Locks, "guard") }
