package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link/address"
)

// Above returns all interfaces that stand on the one with an index, or have what stands on
// it for a member.
func (c *Conn) Above(index int) (all []int, err error) {
	list, err := c.List()
	if err != nil {
		return nil, err
	}
	add := func(i int) bool {
		if i == 0 || i == index || slices.Contains(all, i) {
			return false
		}
		all = append(all, i)
		return true
	}
	isIn := func(i int) bool { return i == index || slices.Contains(all, i) }
	for more := true; more; {
		more = false
		for _, i := range list {
			if isIn(i.Index) && add(i.Master) || isIn(i.Parent) && i.ID.Kind != "veth" && add(i.Index) {
				more = true
			}
		}
	}
	return all, nil
}

// Leads tells whether packets to a host leave through the interface with an
// index, or through one that stands on it.
func (c *Conn) Leads(index int, to netip.Addr) (bool, error) {
	out, err := c.outgoing(to)
	if err != nil || out == 0 || out == index {
		return out == index && err == nil, err
	}
	above, err := c.Above(index)
	return slices.Contains(above, out), err
}

// Carries tells whether the interface with an index, or one that stands on it, has an
// address.
func (c *Conn) Carries(index int, addr netip.Addr) (bool, error) {
	answers, err := address.Dump(c.Route, 0)
	if err != nil {
		return false, fmt.Errorf("list addresses: %w", err)
	}
	above, err := c.Above(index)
	if err != nil {
		return false, err
	}
	for _, m := range answers {
		if len(m) < unix.SizeofIfAddrmsg {
			return false, fmt.Errorf("address message of %d bytes", len(m))
		}
		on := int(native.Uint32(m[4:]))
		if (on == index || slices.Contains(above, on)) && address.Address(m).Addr().Addr() == addr {
			return true, nil
		}
	}
	return false, nil
}

// outgoing returns the interface through which packets to a host leave, 0 if they do not.
func (c *Conn) outgoing(to netip.Addr) (int, error) {
	request := make([]byte, unix.SizeofRtMsg)
	request[0], request[1] = unix.AF_INET6, 128
	if to.Is4() {
		request[0], request[1] = unix.AF_INET, 32
	}
	answers, err := c.send(unix.RTM_GETROUTE, 0, unix.RTM_NEWROUTE, netlink.Append(request, unix.RTA_DST, to.AsSlice()))
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || err == nil && (len(answers) == 0 || len(answers[0]) < unix.SizeofRtMsg) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look up the route to %s: %w", to, err)
	}
	list, err := netlink.Parse(answers[0][unix.SizeofRtMsg:])
	if err != nil {
		return 0, err
	}
	if v := list.Value(unix.RTA_OIF); len(v) == 4 {
		return int(native.Uint32(v)), nil
	}
	return 0, nil
}
