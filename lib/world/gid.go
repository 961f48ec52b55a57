package world

import (
	"fmt"
	"net/netip"
	"time"

	"gresnet/lib/clock"
	"gresnet/lib/link"
	"gresnet/lib/node"
	"gresnet/lib/scan"
)

// GIDs are those that a port should have for the addresses of its interface.
type GIDs struct {
	HCA       node.ID
	Port      uint32
	Interface link.ID
	Want      []netip.Addr
}

// gidTimeout bounds the wait for GIDs, which the kernel adds in a work queue of its own after an
// interface gets an address (roce_gid_mgmt.c).
const gidTimeout = 20 * time.Second

// AwaitGIDs waits until a port has its GIDs.
func (w *World) AwaitGIDs(v *scan.View, g GIDs) error {
	return w.awaitGIDs(v, g, time.Now().Add(gidTimeout))
}

// AwaitGIDsAtHome does so for an interface that came home. All interfaces of an unwinding together
// wait in vain no longer than one: all had their addresses before the first wait.
func (w *World) AwaitGIDsAtHome(v *scan.View, g GIDs) error {
	begun := time.Now()
	err := w.awaitGIDs(v, g, begun.Add(gidTimeout-w.gidsWaited))
	if err != nil {
		w.gidsWaited += time.Since(begun)
	}
	return err
}

// awaitGIDs does not wait for the GIDs of an interface that lost its carrier: the interface has its
// addresses, and the driver decides what it makes of them.
func (w *World) awaitGIDs(v *scan.View, g GIDs, end time.Time) error {
	if len(g.Want) == 0 {
		return nil
	}
	d, err := v.Find(g.HCA)
	if err != nil {
		return err
	}
	for begun := time.Now(); ; clock.Sleep(begun, time.Millisecond) {
		missing, err := v.MissingGIDs(d, g.Port, g.Want)
		if err != nil || len(missing) == 0 {
			return err
		}
		if w.Waits.Late(g.Interface) {
			w.Notice("GID %s of %s port %d is not there: the interface has no carrier any more", missing[0], d.Name, g.Port)
			return nil
		}
		if time.Now().After(end) || w.Context.Err() != nil {
			return fmt.Errorf("wait for GID %s of %s port %d: not there after %s", missing[0], d.Name, g.Port, gidTimeout)
		}
	}
}
