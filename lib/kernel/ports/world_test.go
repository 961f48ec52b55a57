package ports_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/ports"
	"gresnet/test/await"
	"gresnet/test/cgrouptest"
	"gresnet/test/netnstest"
)

// world is two nodes and what is around them:
//
//	n1, n2   nodes; n1 has a second network
//	h        a host in the nodes' network, which is Slurm's
//	r, inet  a router, and a host beyond it
//	st       a host in n1's second network
type world struct {
	t     *testing.T
	at    map[string]*netnstest.NS
	nodes map[string]ports.Node
	mtu   map[string]int // of a node's interface, if it is not 1500
}

// The nodes' addresses.
var addresses = map[string]string{"n1": "192.0.2.1", "n2": "192.0.2.2", "h": "192.0.2.99", "r": "192.0.2.254"}

const (
	slurmUser   = 1900
	firstUser   = 1001
	secondUser  = 1002
	slurmdPort  = 6818
	aPort       = 16500 // of the first block
	anotherPort = 18500 // of the second
)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t, map[string]*netnstest.NS{}, map[string]ports.Node{}, map[string]int{}}
	for _, name := range strings.Fields("lan lan2 n1 n2 h r inet st") {
		w.at[name] = netnstest.New(t)
	}
	w.at["lan"].IP("link add br0 up type bridge")
	w.at["lan2"].IP("link add br0 up type bridge")
	for _, name := range []string{"n1", "n2", "h", "r"} {
		w.plug(name, "eth0", "lan", addresses[name]+"/24")
	}
	w.plug("n1", "eth1", "lan2", "198.51.100.1/24")
	w.plug("st", "eth0", "lan2", "198.51.100.50/24")
	w.at["r"].Run(fmt.Sprintf(`ip link add out type veth peer name eth0 netns %s
		ip addr add 203.0.113.1/24 dev out; ip link set out up; sysctl -qw net.ipv4.ip_forward=1`, w.at["inet"].Path))
	w.at["inet"].Run("ip addr add 203.0.113.9/24 dev eth0; ip link set eth0 up; ip route add default via 203.0.113.1")
	for _, name := range []string{"n1", "n2", "h"} {
		w.at[name].IP("route add default via 192.0.2.254")
	}
	return w
}

// plug connects a host to a network.
func (w *world) plug(name, as, lan, address string) {
	w.t.Helper()
	w.at[name].Run(fmt.Sprintf(`ip link add %s type veth peer name to-%s netns %s
		ip addr add %s dev %s; ip link set %[1]s up`, as, name, w.at[lan].Path, address, as))
	w.at[lan].Run(fmt.Sprintf("ip link set to-%s master br0 up", name))
}

// pins returns a new folder on a BPF file system.
func pins(t *testing.T) ports.Node {
	t.Helper()
	return ports.Node{Pins: filepath.Join(cgrouptest.Pins(t), "gresnet", "ports")}
}

// needs installs programs that a test runs.
func needs(t *testing.T, packages ...string) {
	t.Helper()
	if out, err := exec.Command("../../../test/need", packages...).CombinedOutput(); err != nil {
		netnstest.Skip(t, fmt.Sprintf("needs %s: %s", packages, out))
	}
}

// settings returns what the programs know of a node.
func (w *world) settings(name string) ports.Settings {
	w.t.Helper()
	s := ports.Settings{
		Services:  []int{2049, slurmdPort},
		Callers:   []netip.Prefix{netip.MustParsePrefix("192.0.2.0/30"), netip.MustParsePrefix("192.0.2.99/32")},
		SlurmUser: slurmUser,
		Ephemeral: ports.Block{First: 32768, Last: 60999},
	}
	w.do(name, func() error {
		list, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, i := range list {
			all, err := netlink.AddrList(i, netlink.FAMILY_V4)
			if err != nil {
				return err
			}
			for n, a := range all {
				at, _ := netip.AddrFromSlice(a.IP.To4())
				s.Locals = append(s.Locals, at)
				if n == 0 && i.Attrs().Name != "lo" {
					s.Uplinks = append(s.Uplinks, ports.Uplink{Index: i.Attrs().Index, Address: at})
				}
			}
		}
		// The one with the node's address is the first.
		slices.SortFunc(s.Uplinks, func(a, b ports.Uplink) int { return a.Address.Compare(b.Address) })
		return nil
	})
	return s
}

// share shares out a node's ports.
func (w *world) share(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if w.nodes[name].Pins == "" {
			w.nodes[name] = pins(w.t)
		}
		s := w.settings(name)
		w.do(name, func() error { return w.nodes[name].Attach(s) })
	}
}

// do does something on a host or in a job.
func (w *world) do(name string, f func() error) {
	w.t.Helper()
	if err := w.at[name].Do(f); err != nil {
		w.t.Fatalf("%s: %v", name, err)
	}
}

// job makes a job on nodes, with a network between them: its end on the first is called name-1, and so on.
func (w *world) job(name string, id uint32, user uint32, block ports.Block, nodes ...string) {
	w.t.Helper()
	for n := range nodes {
		w.end(fmt.Sprintf("%s-%d", name, n+1), id, user, block, nodes[n], nodes, false)
	}
}

// mac returns the MAC for an address in a job's network.
func mac(address string) string {
	a := netip.MustParseAddr(address).As4()
	return net.HardwareAddr(append([]byte{0x0e, 0x67}, a[:]...)).String()
}

const toJob, toNode, gateway = "0e:68:00:00:00:02", "0e:68:00:00:00:01", "198.19.0.1"

// end makes a job's end on a node.
func (w *world) end(name string, id, user uint32, block ports.Block, node string, nodes []string, whole bool) {
	w.t.Helper()
	ns := netnstest.New(w.t)
	w.at[name] = ns
	own := addresses[node]
	veth, mtu := "up-"+name, cmp.Or(w.mtu[node], 1500)
	// The VXLAN's socket is in the node.
	w.at[node].Run(fmt.Sprintf(`ip link add vx-%s type vxlan id %d local %s dstport 489 srcport 600 1000 nolearning
		ip link set vx-%[1]s netns %[4]s
		ip link add %[5]s mtu 65535 address %[6]s type veth peer name uplink0 mtu 65535 address %[7]s netns %[4]s
		sysctl -qw net.ipv4.conf.%[5]s.forwarding=1`, name, id, own, ns.Path, veth, toNode, toJob))
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("sysctl -qw net.ipv4.ip_local_port_range='%d %d' net.ipv4.tcp_tw_reuse=1", block.First, block.Last)
	line("ip link set vx-%s name eth0 mtu 1500 address %s", name, mac(own))
	line("ip link set eth0 up; ip addr add %s/24 dev eth0 noprefixroute", own)
	for _, other := range nodes {
		if peer := addresses[other]; peer != own {
			line("ip neigh add %s lladdr %s dev eth0 nud permanent", peer, mac(peer))
			line("bridge fdb add %s dev eth0 dst %s self permanent", mac(peer), peer)
			line("ip route add %s/32 dev eth0 src %s mtu 1450 table 198", peer, own)
		}
	}
	line("ip link set uplink0 up; ip neigh add %s lladdr %s dev uplink0 nud permanent", gateway, toNode)
	line("ip route add default via %s dev uplink0 onlink src %s mtu %d", gateway, own, mtu)
	line("sysctl -qw net.ipv4.conf.uplink0.accept_local=1 net.ipv4.conf.uplink0.rp_filter=0 net.ipv4.conf.all.rp_filter=0")
	line("ip rule add pref 100 lookup local; ip rule del pref 0")
	for _, services := range []string{"1-1023", "2049", strconv.Itoa(slurmdPort)} {
		for _, proto := range []string{"tcp", "udp"} {
			line("ip rule add pref 50 iif lo ipproto %s dport %s lookup 100", proto, services)
		}
	}
	for _, to := range nodes {
		line("ip route add %s/32 via %s dev uplink0 onlink src %s mtu %d table 100", addresses[to], gateway, own, mtu)
	}
	line("ip rule add pref 200 lookup 198")
	for _, proto := range []string{"tcp", "udp"} {
		if whole {
			break
		}
		line("ip rule add pref 300 ipproto %s sport 1-%d prohibit", proto, block.First-1)
		line("ip rule add pref 300 ipproto %s sport %d-65534 prohibit", proto, block.Last+1)
	}
	ns.Run(b.String())
	// The node sees itself first.
	at := slices.Concat([]string{node}, slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == node }))
	j := ports.Job{ID: id, Address: netip.MustParseAddr(own), Block: block, User: user, Aliases: map[netip.Addr]netip.Addr{}, Whole: whole}
	j.MAC, _ = net.ParseMAC(toJob)
	for n, other := range at {
		j.Aliases[netip.MustParseAddr(addresses[other])] = netip.AddrFrom4([4]byte{198, 19, 0, byte(n + 1)})
	}
	w.do(node, func() error {
		i, err := netlink.LinkByName(veth)
		if err != nil {
			return err
		}
		j.Veth = i.Attrs().Index
		if err := w.nodes[node].Confine(j.Veth); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(i); err != nil {
			return err
		}
		return w.nodes[node].Admit(j)
	})
}

var (
	firstBlock  = ports.Block{First: 16384, Last: 18431}
	secondBlock = ports.Block{First: 18432, Last: 20479}
)

// as has a function's sockets be a user's.
func as(user int, f func() error) error {
	if user == 0 {
		return f()
	}
	if _, err := unix.SetfsuidRetUid(user); err != nil {
		return err
	}
	defer unix.SetfsuidRetUid(0)
	return f()
}

// asked is a call's particulars.
type asked struct {
	user   int
	from   string // an address and a port
	device string
	size   int
}

type option func(*asked)

func user(id int) option         { return func(a *asked) { a.user = id } }
func from(address string) option { return func(a *asked) { a.from = address } }
func device(name string) option  { return func(a *asked) { a.device = name } }
func sized(bytes int) option     { return func(a *asked) { a.size = bytes } }
func fromPort(n int) option      { return from(fmt.Sprintf("0.0.0.0:%d", n)) }
func (a *asked) control(_, _ string, c syscall.RawConn) (err error) {
	_ = c.Control(func(fd uintptr) {
		if err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil && a.device != "" {
			err = unix.BindToDevice(int(fd), a.device)
		}
	})
	return err
}

// serve answers at ports, by TCP and UDP, with a name, the caller's address, and how many bytes came.
func (w *world) serve(on, name, address string, numbers ...int) {
	w.serveAs(0, on, name, address, numbers...)
}

func (w *world) serveAs(user int, on, name, address string, numbers ...int) {
	w.t.Helper()
	for _, port := range numbers {
		at := net.JoinHostPort(address, strconv.Itoa(port))
		w.do(on, func() error {
			return as(user, func() error {
				l, err := net.Listen("tcp4", at)
				if err != nil {
					return err
				}
				w.t.Cleanup(func() { l.Close() })
				go answerTCP(l, name)
				u, err := net.ListenPacket("udp4", at)
				if err != nil {
					return err
				}
				w.t.Cleanup(func() { u.Close() })
				go answerUDP(u, name)
				return nil
			})
		})
	}
}

func answerTCP(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		fmt.Fprintf(c, "%s %s", name, host(c.RemoteAddr()))
		c.Close()
	}
}

// answerUDP answers with as many bytes as came. The first ones say who called.
func answerUDP(u net.PacketConn, name string) {
	b := make([]byte, 1<<16)
	for {
		n, from, err := u.ReadFrom(b)
		if err != nil {
			return
		}
		text := fmt.Sprintf("%s %s", name, host(from))
		_, _ = u.WriteTo([]byte(text+strings.Repeat(" ", max(n-len(text), 0))), from)
	}
}

func host(a net.Addr) string {
	h, _, _ := net.SplitHostPort(a.String())
	return h
}

const silence = "silence"

// call calls a service and returns what it answers, or how the call failed.
func (w *world) call(on, proto, to string, options ...option) string {
	return w.callFor(await.Slow(5*time.Second), on, proto, to, options...)
}

func (w *world) callFor(wait time.Duration, on, proto, to string, options ...option) (answer string) {
	w.t.Helper()
	a := &asked{size: 1}
	for _, o := range options {
		o(a)
	}
	d := net.Dialer{Timeout: wait, Control: a.control}
	if a.from != "" {
		at := netip.MustParseAddrPort(a.from)
		if d.LocalAddr = net.Addr(net.TCPAddrFromAddrPort(at)); proto == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(at)
		}
	}
	w.do(on, func() error {
		return as(a.user, func() error {
			c, err := d.Dial(proto+"4", to)
			if err != nil {
				answer = failed(err)
				return nil
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(wait))
			if proto == "udp" {
				if _, err := c.Write(make([]byte, a.size)); err != nil {
					answer = failed(err)
					return nil
				}
			}
			answer = read(c, proto)
			return nil
		})
	})
	return answer
}

func read(c net.Conn, proto string) string {
	if proto == "tcp" {
		b, err := io.ReadAll(c)
		if err != nil {
			return failed(err)
		}
		return string(b)
	}
	b := make([]byte, 1<<16)
	n, err := c.Read(b)
	if err != nil {
		return failed(err)
	}
	text := strings.TrimRight(string(b[:n]), " ")
	if n > len(text) {
		text += fmt.Sprintf(" (%d bytes)", n)
	}
	return text
}

func failed(err error) string {
	var no syscall.Errno
	var late net.Error
	switch {
	case errors.As(err, &late) && late.Timeout():
		return silence
	case errors.As(err, &no):
		return no.Error()
	}
	return err.Error()
}

const refused = "connection refused"

// wants wants an answer to a call by TCP and by UDP.
func (w *world) wants(what, on, to, want string, options ...option) {
	w.t.Helper()
	for _, proto := range []string{"tcp", "udp"} {
		w.wantsBy(proto, what, on, to, want, options...)
	}
}

func (w *world) wantsBy(proto, what, on, to, want string, options ...option) {
	w.t.Helper()
	if got := w.call(on, proto, to, options...); got != want {
		w.t.Errorf("%s: %s calls %s/%s: got %q, want %q", what, on, to, proto, got, want)
	}
}

// reason returns one counter of dropped packets.
type reason func(ports.Dropped) uint64

func source(d ports.Dropped) uint64  { return d.Source }
func port(d ports.Dropped) uint64    { return d.Port }
func kind(d ports.Dropped) uint64    { return d.Kind }
func target(d ports.Dropped) uint64  { return d.Target }
func caller(d ports.Dropped) uint64  { return d.Caller }
func anyUser(d ports.Dropped) uint64 { return d.User }
func shadow(d ports.Dropped) uint64  { return d.Shadow }
func forged(d ports.Dropped) uint64  { return d.Forged }

// drops wants a call not to be answered, because a node's programs drop it for a reason.
func (w *world) drops(proto, what, on, to, node string, why reason, options ...option) {
	w.t.Helper()
	w.ends(await.Slow(300*time.Millisecond), silence, proto, what, on, to, node, why, options...)
}

// refuses wants a call to fail with an error, because a node's programs refuse it for a reason.
func (w *world) refuses(proto, what, on, to, node string, why reason, options ...option) {
	w.t.Helper()
	w.ends(await.Slow(5*time.Second), "no route to host", proto, what, on, to, node, why, options...)
}

func (w *world) ends(wait time.Duration, want, proto, what, on, to, node string, why reason, options ...option) {
	w.t.Helper()
	before := w.dropped(node, why)
	if got := w.callFor(wait, on, proto, to, options...); got != want {
		w.t.Errorf("%s: %s calls %s/%s: got %q, want %q", what, on, to, proto, got, want)
	}
	if after := w.dropped(node, why); after == before {
		w.t.Errorf("%s: %s calls %s/%s: %s does not count that it dropped a packet for that reason", what, on, to, proto, node)
	}
}

func (w *world) dropped(node string, why reason) uint64 {
	w.t.Helper()
	d, err := w.nodes[node].Dropped()
	if err != nil {
		w.t.Fatal(err)
	}
	return why(d)
}
