package check

import (
	"strings"

	"gresnet/lib/uplink"
)

// overlays holds [overlay] against the node.
func (s Site) overlays() []Finding {
	const about = "overlay"
	c := s.Config.Overlay
	switch {
	case !c.On():
		return nil
	case s.OverlayErr != nil:
		f := failed(about, s.OverlayErr)
		f.Text = strings.TrimPrefix(f.Text, about+": ") // as a prolog has it
		return []Finding{f}
	}
	all := []Finding{ok(about, "%s: jobs of up to %d nodes in %s; UDP port %d must be open between nodes", c.Interface, c.Nodes(), c.Network, c.Port)}
	const mean = "in jobs, the names of their nodes mean the nodes"
	if service := uplink.BeforeHosts(s.Root); service != "" {
		all = append(all, warn(about, "GN097 put files first in its line hosts", "/etc/nsswitch.conf has programs ask %s for a name before /etc/hosts: %s", service, mean))
	}
	if uplink.CachesHosts(s.Root) {
		all = append(all, warn(about, "GN098 set enable-cache hosts no in /etc/nscd.conf, and restart nscd", "programs ask nscd for a name before /etc/hosts: %s", mean))
	}
	return all
}
