package step

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/kernel/mount"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/state/lock"
)

// Devices makes the lease's own /dev/infiniband: the uverbs devices of its HCAs and what else the
// site gives, for the job's user alone, and rdma_cm, whose ids are bound to their user's namespace.
// It comes after all moves, because each assigns the numbers anew.
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
	if err := mount.Devices(w.Dir.Devices()); err != nil {
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
		held, err := lock.At(w.Context, guardLock(w))
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
	if err := w.CloseNodes(); err != nil {
		return err
	}
	if err := mount.Remove(w.Dir.Devices()); err != nil {
		return err
	}
	return Unguard(w, w.Job)
}
