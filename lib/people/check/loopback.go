package check

import "gresnet/lib/network/loopback"

// loopback lists the services on the node's loopback: jobs have a loopback of their own.
func (s Site) loopback() (all []Finding) {
	services, err := loopback.Services(s.Root)
	if err != nil {
		return []Finding{failed("loopback", err)}
	}
	for _, k := range services {
		if !s.Config.MovesNothing() {
			all = append(all, ok("loopback", "jobs do not reach %s, on which a service of the node listens", k))
		}
	}
	return all
}
