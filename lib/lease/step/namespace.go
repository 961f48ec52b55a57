package step

import (
	"fmt"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/link"
	"gresnet/lib/link/sysctl"
	"gresnet/lib/state"
)

// Namespace makes the job's network namespace.
type Namespace struct{}

func (*Namespace) Kind() string   { return "namespace" }
func (*Namespace) Object() string { return "" }
func (*Namespace) HCA() node.ID   { return node.ID{} }

// loopback is the index of lo: net/core/dev.c:dev_new_index starts there, and
// lo is a namespace's first.
const loopback = 1

// Do makes the namespace with its loopback interface up, and the node's network settings.
func (*Namespace) Do(w *world.World) error {
	ns, err := netns.Create(w.Dir.Netns())
	if err != nil {
		return err
	}
	defer ns.Close()
	w.TakeSettings()
	return ns.Do(func() error {
		c, err := link.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		if err := c.Up(loopback); err != nil {
			return fmt.Errorf("bring up the job's loopback interface: %w", err)
		}
		// The node has tested the addresses that come here for duplicates.
		return sysctl.SkipDAD()
	})
}

// Undo leaves and unmounts the namespace. No part of the node may be in it any more: it dies with
// its last user.
func (*Namespace) Undo(w *world.World) error {
	w.LeaveJob()
	return state.Unmount(w.Dir.Netns())
}
