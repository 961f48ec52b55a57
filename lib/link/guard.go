package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Above returns all interfaces that stand on the one with an index, or have what stands on
// it for a member.
func (c *Conn) Above(index int) ([]int, error) { return c.climb(index, true) }

// Below returns all interfaces on which the one with an index stands, and those that belong to
// one of them.
func (c *Conn) Below(index int) ([]int, error) { return c.climb(index, false) }

// climb goes from an interface up to what stands on it or has it for a member, and on from there, or down.
func (c *Conn) climb(index int, up bool) (all []int, err error) {
	list, err := c.List()
	if err != nil {
		return nil, err
	}
	isIn := func(i int) bool { return i == index || slices.Contains(all, i) }
	step := func(lower, upper int) {
		from, to := lower, upper
		if !up {
			from, to = upper, lower
		}
		if isIn(from) && to != 0 && !isIn(to) {
			all = append(all, to)
		}
	}
	for found := -1; found < len(all); {
		found = len(all)
		for _, i := range list {
			step(i.Index, i.Master)
			if i.ID.Kind != "veth" {
				step(i.Parent, i.Index)
			}
		}
	}
	return all, nil
}

// Leads tells whether packets to a host leave through the interface with an
// index, or through one that stands on it.
func (c *Conn) Leads(index int, to netip.Addr) (bool, error) {
	out, err := Remembered(c, "way to "+to.String(), func() (int, error) { return c.outgoing(to) })
	if err != nil || out == 0 || out == index {
		return out == index && err == nil, err
	}
	above, err := c.Above(index)
	return slices.Contains(above, out), err
}

// Carries tells whether the interface with an index, or one that stands on it, has an
// address.
func (c *Conn) Carries(index int, addr netip.Addr) (bool, error) {
	all, err := c.addresses(unix.AF_UNSPEC)
	if err != nil {
		return false, err
	}
	above, err := c.Above(index)
	return slices.ContainsFunc(append(above, index), func(on int) bool {
		return slices.ContainsFunc(all[on], func(a netip.Prefix) bool { return a.Addr() == addr })
	}), err
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
	return int(list.Number(unix.RTA_OIF)), err
}
