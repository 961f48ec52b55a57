package world

import (
	"fmt"
	"net/netip"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/link"
)

// GIDs are those that a port should have for the addresses of its interface.
type GIDs struct {
	HCA       node.ID
	Port      uint32
	Interface link.ID
	Want      []netip.Addr
}

// AwaitGIDs waits until a port has its GIDs. It does not wait for those of an interface that lost its
// carrier: the interface has its addresses, and the driver decides what it makes of them.
func (w *World) AwaitGIDs(v *scan.View, g GIDs) error {
	if len(g.Want) == 0 {
		return nil
	}
	d, err := v.Find(g.HCA)
	if err != nil {
		return err
	}
	var missing []netip.Addr
	waited := false
	came, err := w.Until(poll.GIDs, func() (_ bool, err error) {
		if missing, err = v.MissingGIDs(d, g.Port, g.Want); err != nil || len(missing) == 0 {
			return true, err
		}
		if w.IsLate(g.Interface) {
			w.Notice("GID %s of %s port %d is not there: the interface has no carrier any more", missing[0], d.Name, g.Port)
			return true, nil
		}
		waited = true
		return false, nil
	})
	if waited {
		v.Link.LookAgain()
	}
	if !came && err == nil {
		return fmt.Errorf("wait for GID %s of %s port %d: not there after %s", missing[0], d.Name, g.Port, poll.GIDs.Most)
	}
	return err
}

// IsLate tells whether an interface had a carrier and was not seen with one yet.
func (w *World) IsLate(id link.ID) bool { return w.Waits(poll.Carrier.Of(id)) }
