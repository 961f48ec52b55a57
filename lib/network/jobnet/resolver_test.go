package jobnet_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"gresnet/lib/network/jobnet"
)

func TestAJobAsksWhomTheNodesStubAsks(t *testing.T) {
	const stub = "# made by hand\nnameserver 127.0.0.53\noptions edns0 trust-ad\nsearch example.org\n"
	const asked = "nameserver 10.1.0.53\nnameserver fd00::53\nsearch example.org\n"
	resolved := fstest.MapFS{"systemd/resolve/resolv.conf": {Data: []byte(asked)}}
	for _, c := range []struct {
		name, node string
		run        fs.FS
		want       string
	}{
		{"systemd-resolved", stub, resolved, asked},
		{"dnsmasq of NetworkManager", "nameserver 127.0.0.1\n", fstest.MapFS{"NetworkManager/no-stub-resolv.conf": {Data: []byte(asked)}}, asked},
		{"a stub of IPv6", "nameserver ::1\n", resolved, asked},
		{"no stub", "nameserver 10.1.0.9\n", resolved, ""},
		{"nobody says", stub, fstest.MapFS{}, ""},
		{"a stub that asks a stub", stub, fstest.MapFS{"systemd/resolve/resolv.conf": {Data: []byte("nameserver 127.0.0.1\n")}}, ""},
		{"a stub that asks nobody", stub, fstest.MapFS{"systemd/resolve/resolv.conf": {Data: []byte("# no servers known\n")}}, ""},
	} {
		if got := jobnet.Upstream(c.node, c.run); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
