package lease

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/config"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/network/virtual"
	"gresnet/test/netnstest"
)

// option is one of a socket.
type option struct {
	level, name int
	value       string
}

// send sends a text from a namespace to UDP port 5555 of an address, by a socket with options.
func send(path, from, to, text string, options ...option) error {
	ns, err := netns.Open(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	set := func(_, _ string, raw syscall.RawConn) (failed error) {
		err := raw.Control(func(fd uintptr) {
			for _, o := range options {
				failed = cmp.Or(failed, unix.SetsockoptString(int(fd), o.level, o.name, o.value))
			}
		})
		return cmp.Or(err, failed)
	}
	return ns.Do(func() error {
		d := net.Dialer{Control: set}
		if from != "" {
			d.LocalAddr = &net.UDPAddr{IP: net.ParseIP(from)}
		}
		c, err := d.Dial("udp4", to+":5555")
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte(text))
		return err
	})
}

// transparent lets a socket have any address.
var transparent = option{unix.SOL_IP, unix.IP_TRANSPARENT, "\x01\x00\x00\x00"}

// A program can bind to the address of an HCA, and what a job sends needs no answer.
func TestAJobSendsUnderNoOtherAddressThanItsNodes(t *testing.T) {
	netnstest.Slow(t)
	t.Run("which it has itself", func(t *testing.T) {
		c := newCluster(t)
		c.both(jobJ, "prolog")
		c.serve(c.h.Path, "h", "0.0.0.0", "53")
		c.check(kinds("a host", c.job(jobJ, 0), "10.9.0.99 53 ", "h<10.9.0.1")...)
		for from, want := range map[string]string{"10.0.0.1": "silence", "10.9.0.1": "h<10.9.0.1"} {
			c.check(call{what: "from " + from, path: c.job(jobJ, 0), to: "udp 10.9.0.99 53", want: want, more: "uid=1000 dev=uplink0 src=" + from})
		}
		c.both(jobJ, "epilog")
		c.same()
	})
	t.Run("which it does not have", func(t *testing.T) {
		b := wayBed(t)
		b.first.run(t, b.node, b.state, "prolog", never)
		inFar := hears(t, b.far)
		// An address of the job's HCA, another host's, and another one of the node's.
		for _, from := range []string{"10.0.0.9", "10.9.0.77", "10.7.0.2"} {
			if err := send(b.netns(b.first), from, "10.9.0.1", from, transparent); err != nil {
				t.Fatalf("from %s: %v", from, err)
			}
		}
		// What comes later has come when the others do.
		if err := send(b.netns(b.first), "10.9.0.2", "10.9.0.1", "from its own"); err != nil {
			t.Fatal(err)
		}
		if got := heard(t, inFar); got != "from its own" {
			t.Errorf("a host has heard what the job sent from %s", got)
		}
		b.first.run(t, b.node, b.state, "epilog", never)
	})
}

// asUser has a user of a job run a script in its network.
func (c *cluster) asUser(path, wrap, script string) (string, error) {
	c.t.Helper()
	args := append([]string{"--net=" + path, "setpriv", "--reuid", "1000", "--regid", "1000", "--clear-groups"}, strings.Fields(wrap)...)
	out, err := exec.Command("nsenter", append(args, "sh", "-ec", script)...).CombinedOutput()
	return string(out), err
}

func TestAUserOfAJobChangesNothingOfItsNetworkAndSendsNoPacketsOfItsOwnMaking(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	c.both(jobJ, "prolog")
	j1 := c.job(jobJ, 0)
	picture := func() string {
		return c.in(j1, "", "sh", "-ec", `ip -d link | sed "s/ qdisc [a-z]*//"; ip addr; ip route show table all | sort; ip rule; ip neigh show nud permanent; bridge fdb; nft list ruleset | sed "s/packets.*//"
cat /proc/sys/net/ipv4/ip_local_port_range /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/net/ipv4/conf/*/accept_local /proc/sys/net/ipv4/conf/*/rp_filter`)
	}
	before := picture()
	if got := c.in(j1, "", "sh", "-c", "bridge fdb show dev eth0 | grep -o 'dst [^ ]*' | uniq -c | tr -s ' '"); got != "2 dst 10.9.0.2" {
		t.Errorf("eth0 sends to: %s", got)
	}
	commands := []string{
		"ip link set eth0 down", "ip link set eth0 address 02:00:00:00:00:99", "ip link set eth0 mtu 1400", "ip link set eth0 name lost", "ip link del eth0", "ip link set eth0 netns $$",
		"ip link set uplink0 down", "ip link set uplink0 address 02:00:00:00:00:99", "ip link del uplink0", "ip link set uplink0 netns $$",
		"ip link add v0 type vxlan id 4712 local 10.9.0.1 dstport 489", "ip link add v0 type veth", "ip link add v0 link eth0 type macvlan", "ip tuntap add dev t0 mode tap",
		"ip addr add 10.9.0.77/24 dev eth0", "ip addr del 10.9.0.1/24 dev eth0", "ip addr add 198.19.0.2/32 dev uplink0",
		"ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:99 dev eth0", "ip neigh replace 198.19.0.0 lladdr 02:00:00:00:00:99 dev uplink0", "bridge fdb append ff:ff:ff:ff:ff:ff dst 10.9.0.99 dev eth0", "bridge fdb replace 0e:67:0a:09:00:02 dst 10.9.0.99 dev eth0 self",
		"ip route add 10.77.0.0/16 dev eth0", "ip rule add pref 1 lookup 490", "ip rule del pref 1", "tc qdisc add dev uplink0 clsact", "nft flush ruleset", "nft add table ip x", "ethtool -s uplink0 msglvl 1", "ethtool -K eth0 gso off",
		"echo 1 1024 >/proc/sys/net/ipv4/ip_local_port_range", "echo 0 >/proc/sys/net/ipv4/ip_unprivileged_port_start", "echo 1 >/proc/sys/net/ipv4/conf/eth0/accept_local", "echo 1 >/proc/sys/net/ipv4/ip_forward",
	}
	for _, code := range []string{
		"socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 768).bind((\"uplink0\", 0))", "socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 8)", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)", "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 255)",
		"socket.socket().setsockopt(socket.IPPROTO_IP, 19, 1)",                                                                      // IP_TRANSPARENT
		"socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 1)", "socket.socket().setsockopt(socket.IPPROTO_TCP, 19, 1)", // TCP_REPAIR
		"socket.socket(socket.AF_INET, socket.SOCK_DGRAM).bind((\"\", 700))", "socket.socket().bind((\"10.9.0.77\", 0))",
	} {
		commands = append(commands, "python3 -c 'import socket; "+code+"'")
	}
	var script strings.Builder
	for n, command := range commands {
		fmt.Fprintf(&script, "if ( %s ) >/dev/null 2>&1; then echo %d; fi\n", command, n)
	}
	for _, wrap := range []string{"", "unshare -rm"} {
		out, err := c.asUser(j1, wrap, "ip link show dev eth0 >/dev/null; python3 -c 1\n"+script.String())
		if err != nil {
			t.Fatalf("%s: %v: %s", wrap, err, out)
		}
		for _, n := range strings.Fields(out) {
			i, _ := strconv.Atoi(n)
			t.Errorf("%s: a user can %s", wrap, commands[i])
		}
	}
	if out, err := c.asUser(j1, "unshare -rn", "ip -o link | cut -d' ' -f2; nsenter --net=/proc/$PPID/ns/net true 2>&1 || echo no way back"); err != nil || strings.Contains(out, "eth0") || strings.Contains(out, "uplink0") || !strings.Contains(out, "no way back") {
		t.Errorf("in a network of the user's own: %s, %v", out, err)
	}
	if after := picture(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	c.both(jobJ, "epilog")
	c.same()
}

// A user's socket can have options in its packets' heads: to record the route, to take one, strictly or not, and
// to ask for times.
func TestWhatAUserPutsIntoAPacketsHeadLeadsItNowhere(t *testing.T) {
	netnstest.Slow(t)
	c := newCluster(t)
	for _, node := range c.node {
		node.Run("sysctl -qw net.ipv4.conf.all.accept_source_route=1 net.ipv4.conf.default.accept_source_route=1 net.ipv4.conf.all.route_localnet=1")
	}
	c.both(jobJ, "prolog")
	inHost := hears(t, c.h)
	bound := option{unix.SOL_SOCKET, unix.SO_BINDTODEVICE, "uplink0"}
	try := func(to string, heardBy net.PacketConn) {
		t.Helper()
		for _, o := range []string{"\x07\x07\x04\x00\x00\x00\x00\x00", "\x83\x07\x04\xcb\x00\x71\x09\x01", "\x89\x07\x04\xcb\x00\x71\x09\x01", "\x44\x08\x05\x00\x00\x00\x00\x00"} {
			text := fmt.Sprintf("with the options %x", o)
			// The job's own kernel drops some.
			if err := send(c.job(jobJ, 0), "", to, text, bound, option{unix.SOL_IP, unix.IP_OPTIONS, o}); err != nil && !errors.Is(err, unix.EPERM) {
				t.Fatalf("%s: %v", text, err)
			}
		}
		for _, loopback := range []string{"127.0.0.1", "127.9.9.9"} {
			if err := send(c.job(jobJ, 0), "", loopback, "to a loopback", bound); err != nil {
				t.Fatal(err)
			}
		}
		// What comes later has come when the others do.
		if err := send(c.job(jobJ, 0), "", to, "plain", bound); err != nil {
			t.Fatal(err)
		}
		if got := heard(t, heardBy); got != "plain" {
			t.Errorf("%s has heard what the job sent %s", to, got)
		}
	}
	try("10.9.0.99", inHost)
	c.both(jobJ, "epilog")
}

func TestAnUplinksFilterIsThereBeforeItIsUp(t *testing.T) {
	b := wayBed(t)
	var fd int
	err := b.node.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
		err = cmp.Or(err, unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}))
		for _, group := range []int{unix.RTNLGRP_LINK, unix.RTNLGRP_TC} {
			err = cmp.Or(err, unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	b.first.run(t, b.node, b.state, "prolog", never)
	index := uint32(virtual.UplinkOf(virtual.Veth, "", netip.MustParseAddr("198.19.0.1")).Index)
	var events []string
	m := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(fd, m, 0)
		if err != nil || n < 28 {
			break // nothing more, as the prolog has ended
		}
		number := func(at int) uint32 { return binary.NativeEndian.Uint32(m[unix.SizeofNlMsghdr+at:]) }
		kind := binary.NativeEndian.Uint16(m[4:])
		if number(4) != index {
			continue
		}
		if kind == unix.RTM_NEWTFILTER {
			events = append(events, "filter")
		}
		if kind == unix.RTM_NEWLINK && number(8)&unix.IFF_UP != 0 {
			events = append(events, "up")
		}
	}
	if got := slices.Compact(events); fmt.Sprint(got) != "[filter up]" {
		t.Errorf("one after the other: %v", got)
	}
	b.first.run(t, b.node, b.state, "epilog", never)
}

// A macvlan is a neighbor of all, and its routes are no filter.
func TestABoundSocketOfAMacvlanReachesWhateverAnswersThere(t *testing.T) {
	netnstest.Slow(t)
	node, far, state := uplinkBed(t, config.UplinkMacvlan)
	testRun(t, node, state, "prolog", never)
	far.Run("ip addr add 203.0.113.9/32 dev lo")
	serve(t, far.Path, "203.0.113.9")
	got := inLease(node, state, `ip route del default; python3 -c "
import os, socket
os.setuid(1000)
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b\"uplink0\")
s.settimeout(30)
s.connect((\"203.0.113.9\", 7777))
print(s.recv(99).decode())"`)
	if got != "10.9.0.128\n" {
		t.Errorf("a host saw %q", got)
	}
	testRun(t, node, state, "epilog", never)
}
