package snapshot

import (
	"encoding/hex"
	"fmt"
	"strings"

	"gresnet/lib/dcb"
	"gresnet/lib/link"
	"gresnet/lib/neighbour"
	"gresnet/lib/netlink"
	"gresnet/lib/route"
	"gresnet/lib/tc"
)

// Differences names what of the settings the interface does not have, and
// what it has beyond them; nothing is equality.
func (c *Conn) Differences(index int, want Settings) ([]string, error) {
	want, err := c.located(want.aged())
	if err != nil {
		return nil, err
	}
	have, err := c.snapshot(index, want.Sysctls)
	if err != nil {
		return nil, err
	}
	var diff []string
	differ := func(what string, have, want any) {
		if have != want {
			diff = append(diff, fmt.Sprintf("%s is %v, was %v", what, have, want))
		}
	}
	differ("name", have.Name, want.Name)
	differ("MTU", have.MTU, want.MTU)
	if !link.IsIPoIB(want.MAC) {
		differ("MAC", have.MAC, want.MAC)
	}
	differ("flags", fmt.Sprintf("%#x", have.Flags), fmt.Sprintf("%#x", want.Flags))
	differ("IPoIB mode", have.IPoIB.Connected, want.IPoIB.Connected)
	differ("IPoIB umcast", have.IPoIB.Umcast, want.IPoIB.Umcast)
	differ("alternative names", strings.Join(have.AltNames, " "), strings.Join(want.AltNames, " "))
	differ("IPv6 token", hex.EncodeToString(have.Token), hex.EncodeToString(want.Token))
	for _, name := range link.Differing(have.Attributes, want.Attributes) {
		diff = append(diff, name+" is not what it was")
	}
	driver, err := c.driverDifferences(have, index, want.Driver)
	if err != nil {
		return nil, err
	}
	files, err := c.queueFileDifferences(index, have, want)
	if err != nil {
		return nil, err
	}
	diff = append(diff, append(driver, files...)...)
	differ("state", link.UpOrDown(have.Up), link.UpOrDown(want.Up))
	for _, key := range want.Sysctls.Differing(have.Sysctls) {
		differ("sysctl "+key, have.Sysctls[key], want.Sysctls[key])
	}
	diff = append(diff, addressDifferences(have, want)...)
	diff = append(diff, netlink.Differences("neighbour", have.Neighbours, want.Neighbours, netlink.Key, neighbour.Neighbour.String)...)
	for _, m := range netlink.Missing(want.Filters, have.Filters, netlink.Key) {
		diff = append(diff, fmt.Sprintf("hardware address filter %s is missing", m))
	}
	diff = append(diff, netlink.Differences("route", want.settledRoutes(have), want.Routes, route.Route.Key, route.Route.String)...)
	diff = append(diff, netlink.Differences("next hop object", append(have.Nexthops, have.HomeNexthops...), append(want.Nexthops, want.HomeNexthops...), route.Nexthop.Key, route.Nexthop.String)...)
	diff = append(diff, netlink.Differences("route", have.HomeRoutes, want.HomeRoutes, route.Route.Key, route.Route.String)...)
	for _, m := range netlink.Missing(want.Rules, have.Rules, netlink.Key) {
		diff = append(diff, fmt.Sprintf("policy rule %s is missing", m))
	}
	if string(have.Qdisc) != string(want.Qdisc) {
		diff = append(diff, fmt.Sprintf("queueing discipline %s is not what it was (%s)", have.Qdisc.Kind(), want.Qdisc.Kind()))
	}
	diff = append(diff, netlink.Differences("queueing discipline", have.Queues, want.Queues, netlink.Key, tc.Qdisc.Queue)...)
	if len(want.Priorities) > 0 {
		if have.Priorities, err = dcb.Read(c.Route, have.Name); err != nil {
			return nil, fmt.Errorf("read the DCB priorities of %s: %w", have.Name, err)
		}
	}
	for _, m := range netlink.Missing(want.Priorities, have.Priorities, netlink.Key) {
		diff = append(diff, fmt.Sprintf("DCB priority %s is missing", m))
	}
	mirrors, err := tc.DueMirrors(c.Route, want.Name, want.Mirrors)
	if err != nil {
		return nil, err
	}
	for _, m := range mirrors {
		diff = append(diff, fmt.Sprintf("traffic control action mirred %s sends no packets through it", m))
	}
	more, err := c.childDifferences(index, want.Children)
	if err != nil {
		return nil, err
	}
	return append(diff, more...), nil
}
