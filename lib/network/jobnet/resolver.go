package jobnet

import (
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"gresnet/lib/base/config"
)

// upstreams are the files in which resolvers on the node's loopback name the servers that they ask:
// systemd-resolved, and NetworkManager with dnsmasq.
var upstreams = []string{"systemd/resolve/resolv.conf", "NetworkManager/no-stub-resolv.conf"}

// Upstream returns a resolv.conf for a job, if the node's names a server on the node's loopback,
// which the job does not reach. It returns "" if the node's own file will do, or if no file names
// the servers behind the loopback's.
func Upstream(node string, run fs.FS) string {
	if !slices.ContainsFunc(Servers(node), netip.Addr.IsLoopback) || run == nil {
		return ""
	}
	for _, path := range upstreams {
		text, err := fs.ReadFile(run, path)
		asked := Servers(string(text))
		if err == nil && len(asked) > 0 && !slices.ContainsFunc(asked, netip.Addr.IsLoopback) {
			return string(text)
		}
	}
	return ""
}

// Servers returns the name servers of a resolv.conf.
func Servers(text string) (all []netip.Addr) {
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

// ResolvConf returns the resolv.conf that the site gives its jobs.
func ResolvConf(c config.Uplink) string {
	var b strings.Builder
	fmt.Fprintln(&b, "# gresnet.toml, [uplink]")
	if len(c.Search) > 0 {
		fmt.Fprintln(&b, "search", strings.Join(c.Search, " "))
	}
	for _, a := range c.Nameservers {
		fmt.Fprintln(&b, "nameserver", a)
	}
	return b.String()
}
