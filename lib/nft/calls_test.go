package nft_test

import (
	"net/netip"
	"strings"
	"testing"

	"gresnet/lib/nft"
	"gresnet/test/netnstest"
)

// slurmd answers a call with whom it sees calling, and then calls back, to the port that it is told.
const slurmd = `python3 -c '
import os, socket
s = socket.create_server(("0.0.0.0", 6818))
if os.fork() == 0:
	os.setsid()
	os.closerange(0, 3)
	s.settimeout(60)
	while True:
		c, peer = s.accept()
		port = int(c.makefile().readline())
		try:
			back = socket.create_connection((peer[0], port), timeout=5)
			back.sendall(("called back by %s, " % NAME).encode())
			back.close()
		except OSError as e:
			c.sendall(str(e).encode())
		c.sendall(("as %s" % peer[0]).encode())
		c.close()
'`

// srun calls slurmd, waits to be called back, and says what it heard and from where.
const srun = `python3 -c '
import socket
s = socket.create_server(("0.0.0.0", 0))
s.settimeout(5)
try:
	c = socket.create_connection(("ADDRESS", 6818), timeout=5)
	c.sendall(("%d\n" % s.getsockname()[1]).encode())
	b, peer = s.accept()
	print(b.recv(99).decode() + c.recv(99).decode() + " from " + peer[0])
except OSError as e:
	print(e)'`

// Two nodes, each with a part of one job: the job's parts are joined by job0, and each to its node by uplink0.
func TestSlurmdOnAnotherNodeCallsBackIntoTheJobThatCalledIt(t *testing.T) {
	real := []string{"10.9.0.1", "10.9.0.2"}
	inside := []string{"198.18.0.1", "198.18.0.2"}
	jobs, nodes := []*netnstest.NS{netnstest.New(t), netnstest.New(t)}, []*netnstest.NS{netnstest.New(t), netnstest.New(t)}
	jobs[0].IP("link add job0 index 78 type veth peer name job0 index 78 netns " + jobs[1].Path)
	nodes[0].IP("link add eth0 type veth peer name eth0 netns " + nodes[1].Path)
	back := netip.MustParsePrefix("240.5.0.0/16")
	for i, job := range jobs {
		job.IP("link add uplink0 index 77 type veth peer name in0 netns " + nodes[i].Path)
		job.Run("ip link set job0 up; ip link set uplink0 up; ip addr add " + inside[i] + "/16 dev job0; ip addr add 198.19.0.5/32 peer 198.19.0.1 dev uplink0; ip route add default via 198.19.0.1;" +
			"echo 1 >/proc/sys/net/ipv4/conf/job0/forwarding; echo 1 >/proc/sys/net/ipv4/conf/uplink0/forwarding")
		nodes[i].Run("ip link set in0 up; ip link set eth0 up; ip addr add " + real[i] + "/24 dev eth0; ip addr add 198.19.0.1/32 peer 198.19.0.5 dev in0;" +
			"ip route add " + back.String() + " via 198.19.0.5 dev in0; echo 1 >/proc/sys/net/ipv4/ip_forward")
		if err := nodes[i].Do(func() error { return nft.Masquerade("n", netip.MustParseAddr("198.19.0.5")) }); err != nil {
			t.Fatal(err)
		}
		nodes[i].Run(strings.ReplaceAll(slurmd, "NAME", `"slurmd `+real[i]+`"`))
	}
	serve := func(i int) error {
		s := nft.Services{
			Network: netip.MustParsePrefix("198.18.0.0/16"), Ports: []int{22, 6818}, Out: 77,
			Nodes: []nft.Node{
				{Inside: netip.MustParseAddr(inside[i]), Real: netip.MustParseAddr("198.19.0.1")},
				{Inside: netip.MustParseAddr(inside[1-i]), Real: netip.MustParseAddr(real[1-i])},
			},
			Calls: &nft.Calls{Port: 6818, Inside: 78, Own: netip.MustParseAddr(inside[i]), Gateway: netip.MustParseAddr("198.19.0.1"), Back: back},
		}
		return jobs[i].Do(func() error { return nft.Serve(s) })
	}
	call := func(i int, address string) string {
		return strings.TrimSpace(jobs[i].Run(strings.ReplaceAll(srun, "ADDRESS", address)))
	}
	if got, want := call(0, real[1]), "timed out"; got != want {
		t.Fatalf("without this slurmd calls back: %q", got)
	}
	for i := range jobs {
		if err := serve(i); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		from int
		to   string
		want string
	}{
		{0, real[1], "called back by slurmd 10.9.0.2, as 240.5.0.1 from 198.18.0.2"},
		{0, inside[1], "called back by slurmd 10.9.0.2, as 240.5.0.1 from 198.18.0.2"},
		{1, real[0], "called back by slurmd 10.9.0.1, as 240.5.0.2 from 198.18.0.1"},
		{0, real[0], "called back by slurmd 10.9.0.1, as 198.19.0.5 from 198.19.0.1"},
		{0, inside[0], "called back by slurmd 10.9.0.1, as 198.19.0.5 from 198.19.0.1"},
	} {
		if got := call(c.from, c.to); got != c.want {
			t.Errorf("job on node %d calls %s: %q, want %q", c.from+1, c.to, got, c.want)
		}
	}
}
