package snapshot

import (
	"fmt"
	"slices"

	"gresnet/lib/link/inet"
)

// lessDaemons returns the settings without what is a routing daemon's: on the node the daemon gives it. Only
// the job gets it from gresnet.
func (s Settings) lessDaemons() Settings {
	isRoute := func(m inet.Route) bool { return inet.IsDaemons(m.Protocol()) }
	isObject := func(m inet.Nexthop) bool { return inet.IsDaemons(m.Protocol()) }
	s.Routes, s.NodeRoutes = less(s.Routes, isRoute), less(s.NodeRoutes, isRoute)
	s.Nexthops, s.NodeNexthops = less(s.Nexthops, isObject), less(s.NodeNexthops, isObject)
	return s
}

func less[M any](list []M, is func(M) bool) []M {
	if !slices.ContainsFunc(list, is) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), is)
}

// refuseOnDaemons refuses what an administrator made by a routing daemon's next hop objects: it goes with them, and the
// daemon does not make it again.
func (s Settings) refuseOnDaemons() error {
	var objects []uint32
	for _, m := range slices.Concat(s.Nexthops, s.NodeNexthops) {
		if inet.IsDaemons(m.Protocol()) {
			objects = append(objects, m.ID())
		}
	}
	if len(objects) == 0 {
		return nil
	}
	left := s.lessDaemons()
	for _, m := range slices.Concat(left.Nexthops, left.NodeNexthops) {
		if slices.ContainsFunc(m.Members(), func(id uint32) bool { return slices.Contains(objects, id) }) {
			return fmt.Errorf("next hop object %s of %s has members that are a routing daemon's, and gresnet cannot restore it", m, s.Name)
		}
	}
	for _, m := range slices.Concat(left.Routes, left.NodeRoutes) {
		if m.UsesAny(objects) {
			return fmt.Errorf("route %s of %s is by a next hop object of a routing daemon's, and gresnet cannot restore it", m, s.Name)
		}
	}
	return nil
}
