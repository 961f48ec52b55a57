package link

import (
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/link/inet"
)

// Way is a route of IPv4, of any table: where it leads, and by which interfaces, if by any.
type Way struct {
	To         netip.Prefix
	Interfaces []int
	Source     netip.Addr // the node's address that it prefers; invalid: none
}

// Ways returns those of the namespace's routes to elsewhere that overlap with a network, and of the others the
// first by each interface. The node may have thousands of routes.
func (c *Conn) Ways(network netip.Prefix) (all []Way, err error) {
	var used map[int]bool // interfaces that a way goes by
	again := func() { all, used = nil, map[int]bool{} }
	again()
	var w Way
	fresh := false
	note := func(index []byte) {
		i := int(native.Uint32(index))
		w.Interfaces, fresh = append(w.Interfaces, i), fresh || !used[i]
	}
	err = inet.EachIPv4Route(c.Route, again, func(m []byte) {
		r := inet.Route(m)
		switch m[7] { // rtm_type
		case unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST, unix.RTN_MULTICAST:
			return
		}
		to := r.Destination()
		if !to.IsValid() {
			to = netip.IPv4Unspecified()
		}
		w, fresh = Way{To: netip.PrefixFrom(to, int(m[1])), Interfaces: w.Interfaces[:0], Source: inet.RouteSource(m)}, false
		r.EachIndex(note)
		if !fresh && !w.To.Overlaps(network) {
			return
		}
		for _, i := range w.Interfaces {
			used[i] = true
		}
		all = append(all, Way{w.To, slices.Clone(w.Interfaces), w.Source})
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return all, nil
}

// Networks returns the IPv4 addresses of the namespace by interface, with the length
// of the network that each is in.
func (c *Conn) Networks() (map[int][]netip.Prefix, error) { return c.addresses(unix.AF_INET) }

// addresses returns the addresses of a family, or of all, by interface.
func (c *Conn) addresses(family byte) (map[int][]netip.Prefix, error) {
	request := make([]byte, unix.SizeofIfAddrmsg)
	request[0] = family
	answers, err := c.send(unix.RTM_GETADDR, unix.NLM_F_DUMP, unix.RTM_NEWADDR, request)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	all := map[int][]netip.Prefix{}
	for _, m := range answers {
		if len(m) < unix.SizeofIfAddrmsg {
			return nil, fmt.Errorf("address message of %d bytes", len(m))
		}
		index := int(native.Uint32(m[4:]))
		all[index] = append(all[index], inet.Address(m).Addr())
	}
	return all, nil
}
