package environment

import (
	"net/netip"
	"slices"
	"strconv"
)

// GID is an entry of a port's GID table.
type GID struct {
	Index int
	Addr  netip.Addr
}

// reach is how far an address reaches, by what it is.
type reach int

// What NCCL looks for, and in this order: RoCE v2 over IPv4 is what fabrics with
// routers have, and link-local addresses reach no further than a switch does.
const (
	ipv4 reach = iota
	ipv6
	linkLocal
)

func (g GID) reach() reach {
	switch {
	case g.Addr.Is4In6():
		return ipv4
	case g.Addr.IsLinkLocalUnicast():
		return linkLocal
	}
	return ipv6
}

// gidIndex returns the lowest index at which each RoCE port that is used has a GID of
// one kind, empty if there is none: one number for all is all that NCCL takes.
func gidIndex(hcas []HCA) string {
	var tables [][]GID
	for _, h := range distinct(hcas) {
		for _, p := range h.used() {
			if p.RoCE {
				tables = append(tables, p.GIDs)
			}
		}
	}
	if len(tables) == 0 {
		return ""
	}
	for _, r := range []reach{ipv4, ipv6, linkLocal} {
		for _, g := range tables[0] {
			if g.reach() == r && inAll(tables, g.Index, r) {
				return strconv.Itoa(g.Index)
			}
		}
	}
	return ""
}

func inAll(tables [][]GID, index int, r reach) bool {
	return !slices.ContainsFunc(tables, func(t []GID) bool {
		return !slices.ContainsFunc(t, func(g GID) bool { return g.Index == index && g.reach() == r })
	})
}
