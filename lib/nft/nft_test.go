package nft_test

import (
	"net/netip"
	"strings"
	"testing"

	"gresnet/lib/nft"
	"gresnet/test/netnstest"
)

// seenBy is the address under which a server sees what comes from inside, or why
// it does not.
func seenBy(server, inside *netnstest.NS) string {
	server.Run(`python3 -c '
import os, socket
s = socket.create_server(("10.9.0.1", 7777))
if os.fork() == 0:
	os.setsid()
	os.closerange(0, 3)
	s.settimeout(30)
	c, peer = s.accept()
	c.sendall(peer[0].encode())
'`)
	return strings.TrimSpace(inside.Run(`python3 -c '
import socket
print(socket.create_connection(("10.9.0.1", 7777), timeout=20).recv(99).decode())'`))
}

func TestMasqueradingIsThereUntilItIsRemoved(t *testing.T) {
	node, server, inside := netnstest.New(t), netnstest.New(t), netnstest.New(t)
	node.IP("link add in0 type veth peer name up0 netns " + inside.Path)
	node.IP("link add out0 type veth peer name net0 netns " + server.Path)
	node.Run("sysctl -qw net.ipv4.ip_forward=1; ip link set in0 up; ip link set out0 up; ip addr add 10.8.0.1/24 dev in0; ip addr add 10.9.0.2/24 dev out0")
	inside.Run("ip link set up0 up; ip addr add 10.8.0.2/24 dev up0; ip route add default via 10.8.0.1")
	server.Run("ip link set net0 up; ip addr add 10.9.0.1/24 dev net0; ip route add 10.8.0.0/24 via 10.9.0.2")
	from := netip.MustParseAddr("10.8.0.2")
	for _, c := range []struct {
		name string
		deed func() error
		want string
	}{
		{"nothing", func() error { return nil }, "10.8.0.2"},
		{"nothing removed", func() error { return nft.Remove("gresnet_10.8.0.2") }, "10.8.0.2"},
		{"another's", func() error { return nft.Masquerade("gresnet_10.8.0.3", netip.MustParseAddr("10.8.0.3")) }, "10.8.0.2"},
		{"its own", func() error { return nft.Masquerade("gresnet_10.8.0.2", from) }, "10.9.0.2"},
		{"once more", func() error { return nft.Masquerade("gresnet_10.8.0.2", from) }, "10.9.0.2"},
		{"another's removed", func() error { return nft.Remove("gresnet_10.8.0.3") }, "10.9.0.2"},
		{"removed", func() error { return nft.Remove("gresnet_10.8.0.2") }, "10.8.0.2"},
		{"removed again", func() error { return nft.Remove("gresnet_10.8.0.2") }, "10.8.0.2"},
	} {
		if err := node.Do(c.deed); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := seenBy(server, inside); got != c.want {
			t.Errorf("%s: the server sees %q, want %q", c.name, got, c.want)
		}
	}
}
