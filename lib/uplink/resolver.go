package uplink

import (
	"io/fs"
	"net/netip"
	"slices"
	"strings"
)

// upstreams are where programs that answer for names on the node's loopback write whom they
// ask: systemd-resolved, and NetworkManager with dnsmasq.
var upstreams = []string{"systemd/resolve/resolv.conf", "NetworkManager/no-stub-resolv.conf"}

// Upstream is a resolv.conf for a job: its loopback is not the node's. It is "" where the node's own
// will do, or nobody says whom its stub asks.
func Upstream(node string, run fs.FS) string {
	if !slices.ContainsFunc(servers(node), netip.Addr.IsLoopback) || run == nil {
		return ""
	}
	for _, path := range upstreams {
		text, err := fs.ReadFile(run, path)
		asked := servers(string(text))
		if err == nil && len(asked) > 0 && !slices.ContainsFunc(asked, netip.Addr.IsLoopback) {
			return string(text)
		}
	}
	return ""
}

// servers are the nameservers of a resolv.conf.
func servers(text string) (all []netip.Addr) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil {
			all = append(all, a)
		}
	}
	return all
}
