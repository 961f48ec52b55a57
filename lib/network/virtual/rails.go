package virtual

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// railsTable has the routes by an overlay to the networks of HCAs. Its rule comes after the main table, where
// the job's own HCAs lead, and before the way out.
const railsTable = 491

// everybody has the addresses of groups, and the one of all who are on the link.
var everybody = []netip.Prefix{
	netip.PrefixFrom(netip.AddrFrom4([4]byte{224, 0, 0, 0}), 4),
	netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), 32),
}

// addAll has the job reach all its peers by a broadcast, so that ARP asks all of them, and by what goes on
// the node where its default route leads: multicasts, and broadcasts to 255.255.255.255. One of the job's
// own HCAs may lead back to where a packet comes from, so reverse-path filtering is off.
func addAll(i netlink.Link, o Overlay) error {
	if !o.Address.Addr().Is4() || len(o.Peers) == 0 {
		return nil
	}
	// An HCA's own route comes first.
	if err := (Route{From: o.Address.Addr(), Metric: 1 << 16, MTU: o.Path}).AddAll(o.Index, everybody); err != nil {
		return err
	}
	if err := set(i.Attrs().Name, "ipv4", "rp_filter", "0"); err != nil {
		return err
	}
	return addBroadcast(o)
}

// LeadRails leads to the overlay, in the job's namespace, what is for networks of HCAs that the job has not itself and
// its peers may have. Its packets come from the addresses of its own HCAs, by turns, as they would on the node: Open MPI
// takes no connection from another address of the peer's.
func LeadRails(o Overlay, rails []netip.Prefix, own []netip.Addr) error {
	if !o.Address.Addr().Is4() {
		return nil
	}
	index, err := FindOverlay(o)
	if err != nil {
		return err
	}
	for n, to := range rails {
		r := Route{To: to, From: o.Address.Addr(), MTU: o.Path, Table: railsTable}
		if len(own) > 0 {
			r.From = own[n%len(own)]
		}
		err := r.Add(index)
		if errors.Is(err, unix.EINVAL) { // the HCA has no carrier, and so not the address yet
			r.From = o.Address.Addr()
			err = r.Add(index)
		}
		if err != nil {
			return err
		}
	}
	after := rule(mainPref, railsTable) // the one that is there
	if err := netlink.RuleAdd(after); err != nil {
		return fmt.Errorf("lead to the networks of other HCAs: %w", err)
	}
	return nil
}
