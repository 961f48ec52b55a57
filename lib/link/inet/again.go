package inet

import (
	"errors"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// RefusedRoute returns the first of an interface's routes that the kernel would not take again, and why. The kernel looks
// for a route's gateways and its other interfaces only when it adds the route. own has the routes by which the interface
// reaches gateways.
func RefusedRoute(r *netlink.Route, index int, list, own []Route) (Route, error) {
	asked := map[string]bool{}
	for _, m := range list {
		alike := string(m[2:routeHead]) + string(without(m[routeHead:], unix.RTA_DST))
		if m.isOwn() || m.rank() == direct || asked[string(m[:1])+alike] {
			continue
		}
		asked[string(m[:1])+alike] = true
		isReached := areReached(Gateways([]Route{m}, nil), own)
		if isReached && len(m.attributes().Value(unix.RTA_MULTIPATH)) == 0 {
			continue // only a policy rule could forbid it
		}
		err := takes(r, index, m)
		if errors.Is(err, unix.EINVAL) && RouteSource(m).IsValid() {
			err = takes(r, index, m.sourceless()) // as AddRoute does
		}
		if err != nil && (!isReached || errors.Is(err, unix.ENODEV)) {
			return m, err
		}
	}
	return nil, nil
}

// takes asks the kernel whether it would take a route. It judges a request before it looks for the route, and this request
// makes no route (NLM_F_CREATE) and replaces none (NLM_F_EXCL). Without NLM_F_REPLACE, IPv6 would make the route.
func takes(r *netlink.Route, index int, m Route) error {
	_, err := r.Send(unix.RTM_NEWROUTE, unix.NLM_F_EXCL|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, m.on(index))
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOENT) { // ENOENT: it is gone by now
		return nil
	}
	return err
}

// RefusedNexthop returns the first of an interface's next hop objects that the kernel would not take again, and why. It
// asks only about objects with a gateway that the interface does not reach.
func RefusedNexthop(r *netlink.Route, index int, list []Nexthop, own []Route) (Nexthop, error) {
	for _, m := range list {
		if len(m.attributes().Value(unix.NHA_GATEWAY)) == 0 || areReached(Gateways(nil, []Nexthop{m}), own) {
			continue
		}
		_, err := r.Send(unix.RTM_NEWNEXTHOP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, 0, m.on(index))
		if err == nil { // it is gone by now, and the request made it again
			id := nativeRoute.AppendUint32(nil, m.ID())
			_, err = r.Send(unix.RTM_DELNEXTHOP, unix.NLM_F_ACK, 0, netlink.Append(make([]byte, nexthopHead), unix.NHA_ID, id))
		}
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return m, err
		}
	}
	return nil, nil
}

// areReached tells whether there are gateways, and an interface's own routes lead to all of them. The kernel takes these
// again: where policy rules keep it from them, DespiteRules overcomes that.
func areReached(gateways []netip.Addr, own []Route) bool {
	isReached := func(a netip.Addr) bool {
		return slices.ContainsFunc(own, func(m Route) bool { return m.rank() == direct && m[7] == unix.RTN_UNICAST && m.covers(a) })
	}
	return len(gateways) > 0 && !slices.ContainsFunc(gateways, func(a netip.Addr) bool { return !isReached(a) })
}

// covers tells whether an address is in the network that a route is to.
func (m Route) covers(a netip.Addr) bool {
	if m.Family() != familyOf(netip.PrefixFrom(a, a.BitLen())) {
		return false
	}
	to := m.Destination() // none of a default route
	return m[1] == 0 || to.IsValid() && netip.PrefixFrom(to, int(m[1])).Contains(a)
}
