package nft_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"gresnet/lib/nft"
	"gresnet/test/netnstest"
)

// answering is a server of one line for one connection.
func answering(ns *netnstest.NS, address, says string) {
	host, port, _ := net.SplitHostPort(address)
	ns.Run(`python3 -c '
import os, socket
s = socket.create_server(("` + host + `", ` + port + `))
if os.fork() == 0:
	os.setsid()
	os.closerange(0, 3)
	s.settimeout(60)
	while True:
		c, peer = s.accept()
		c.sendall(("` + says + ` to " + peer[0]).encode())
		c.close()
'`)
}

func called(ns *netnstest.NS, address string) string {
	host, port, _ := net.SplitHostPort(address)
	return strings.TrimSpace(ns.Run(`python3 -c '
import socket
try:
	print(socket.create_connection(("` + host + `", ` + port + `), timeout=5).recv(99).decode())
except OSError as e:
	print(e)'`))
}

func TestServicesOfAJobsNodesAreTheNodesAndOtherPortsTheJobs(t *testing.T) {
	job, peer, node := netnstest.New(t), netnstest.New(t), netnstest.New(t)
	job.IP("link add job0 type veth peer name job0 netns " + peer.Path)
	job.IP("link add uplink0 index 77 type veth peer name in0 netns " + node.Path)
	job.Run("ip link set lo up; ip link set job0 up; ip link set uplink0 up; ip addr add 198.18.0.1/16 dev job0; ip addr add 198.19.0.2/24 dev uplink0; ip route add default via 198.19.0.1")
	peer.Run("ip link set lo up; ip link set job0 up; ip addr add 198.18.0.2/16 dev job0")
	node.Run("ip link set lo up; ip link set in0 up; ip addr add 198.19.0.1/24 dev in0; ip addr add 10.9.0.2/32 dev lo")
	answering(peer, "198.18.0.2:22", "the job")
	answering(peer, "198.18.0.2:8080", "the job")
	answering(node, "10.9.0.2:22", "the other node")
	answering(node, "198.19.0.1:22", "this node")
	services := nft.Services{
		Network: netip.MustParsePrefix("198.18.0.0/16"), Ports: []int{22, 6817}, Out: 77,
		Nodes: []nft.Node{
			{Inside: netip.MustParseAddr("198.18.0.1"), Real: netip.MustParseAddr("198.19.0.1")},
			{Inside: netip.MustParseAddr("198.18.0.2"), Real: netip.MustParseAddr("10.9.0.2")},
		},
	}
	// More than one message has room for.
	for a := netip.MustParseAddr("198.18.1.0"); a.Less(netip.MustParseAddr("198.18.7.0")); a = a.Next() {
		services.Nodes = append(services.Nodes, nft.Node{Inside: a, Real: netip.MustParseAddr("10.9.0.2")})
	}
	if got := called(job, "198.18.0.2:22"); got != "the job to 198.18.0.1" {
		t.Fatalf("without services: %q", got)
	}
	if err := job.Do(func() error { return nft.Serve(services) }); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"198.18.0.2:22":   "the other node to 198.19.0.2",
		"198.18.6.255:22": "the other node to 198.19.0.2",
		"198.18.0.1:22":   "this node to 198.19.0.2",
		"10.9.0.2:22":     "the other node to 198.19.0.2",
		"198.18.0.2:8080": "the job to 198.18.0.1",
	} {
		if got := called(job, address); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	// What is no service costs no connection of the kernel's list.
	before := job.Run("cat /proc/sys/net/netfilter/nf_conntrack_count")
	for range 3 {
		called(job, "198.18.0.2:8080")
	}
	if after := job.Run("cat /proc/sys/net/netfilter/nf_conntrack_count"); after > before {
		t.Errorf("connections to other ports are tracked: %s, before %s", after, before)
	}
}
