package snapshot_test

import (
	"net"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"gresnet/lib/link/inet"
	"gresnet/lib/link/snapshot"
	"gresnet/test/netnstest"
)

func TestWhatCannotBeRestoredIsRefusedBeforeAnythingChanges(t *testing.T) {
	netnstest.Slow(t)
	tests := []struct{ name, setup, want string }{
		{"a master", `ip link add br0 type bridge; ip link set hca0 master br0`, "hca0 belongs to bridge br0"},
		{"a queueing discipline with classes", `tc qdisc add dev hca0 root handle 1: htb`, "hca0 has queueing discipline htb"},
		{"a queueing discipline below the root", `ip link set hca0 up; until ip -6 addr show dev hca0 scope link -tentative | grep -q inet6; do sleep 0.02; done; tc qdisc add dev hca0 root handle 1: mq; tc qdisc replace dev hca0 parent 1:2 handle 2: pfifo limit 77`, "hca0 has queueing discipline pfifo below its root"},
		{"others' traffic that is sent through it", `ip link add other type veth peer name otherfar; tc qdisc add dev other ingress
tc filter add dev other ingress protocol ip u32 match u32 0 0 action mirred egress mirror index 7 dev hca0`, "action mirred 7 sends packets through hca0"},
		{"an action that stands alone", `tc actions add action mirred egress redirect index 9 dev hca0`, "action mirred 9 sends packets through hca0"},
		{"a route that counts", `ip link set hca0 up; ip -6 addr add fd00::2/64 dev hca0 nodad; ip -6 route add fd07::/64 encap seg6local action End.X nh6 fd00::9 count dev hca0`, "seg6local with counters encapsulates what route fd07::/64 of hca0 takes"},
		{"a next hop object that counts", `ip link set hca0 up; ip -6 addr add fd00::2/64 dev hca0 nodad; ip nexthop add id 7 encap seg6local action End.X nh6 fd00::9 count via fd00::6 dev hca0`, "seg6local with counters encapsulates what next hop object 7 of hca0 takes"},
		{"a child that goes with it", `ip link add vx0 type vxlan id 7 dev hca0 dstport 4789 remote 10.0.0.9`, "vx0 stands on hca0"},
		{"ingress", `tc qdisc add dev hca0 ingress`, "hca0 has queueing discipline ingress"},
		{"a rate estimator", `tc qdisc add dev hca0 root estimator 1s 8s pfifo`, "hca0 has queueing discipline pfifo with a rate estimator"},
		{"clsact", `tc qdisc add dev hca0 clsact`, "hca0 has queueing discipline clsact"},
		{"a route whose gateway is on no link any more", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip route add 10.7.0.0/24 dev hca0
ip route add 10.9.0.0/16 via 10.0.0.1 dev hca0; ip route add 10.8.0.0/16 via 10.7.0.1 dev hca0; ip route del 10.7.0.0/24 dev hca0`, "the kernel does not take route 10.8.0.0/16 via 10.7.0.1 of hca0 again"},
		{"a gateway of IPv6 that is on no link any more", `ip link set hca0 up; ip -6 addr add fd00::2/64 dev hca0 nodad; ip -6 route add fd07::/64 dev hca0
ip -6 route add fd08::/64 via fd07::1 dev hca0 expires 500; ip -6 route del fd07::/64 dev hca0`, "the kernel does not take route fd08::/64 via fd07::1 of hca0 again"},
		{"one of several gateways that is on no link any more", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip addr add 10.7.0.2/24 dev hca0
ip route add 10.9.0.0/16 nexthop via 10.0.0.1 dev hca0 nexthop via 10.7.0.1 dev hca0; ip addr del 10.7.0.2/24 dev hca0`, "the kernel does not take route 10.9.0.0/16 of hca0 again"},
		{"a next hop object whose gateway is on no link any more", `ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0; ip route add 10.7.0.0/24 dev hca0
ip nexthop add id 7 via 10.7.0.1 dev hca0; ip route del 10.7.0.0/24 dev hca0`, "the kernel does not take next hop object 7 of hca0 again"},
		{"a child's route whose gateway is on no link any more", `ip link set hca0 up; ip link add mv0 link hca0 type macvlan mode bridge; ip link set mv0 up; ip addr add 10.5.0.2/24 dev mv0
ip route add 10.7.0.0/24 dev mv0; ip route add 10.8.0.0/16 via 10.7.0.1 dev mv0; ip route del 10.7.0.0/24 dev mv0`, "the kernel does not take route 10.8.0.0/16 via 10.7.0.1 of mv0 again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t)
			b.node.Run("sysctl -qw net.ipv6.conf.hca0.accept_dad=0\n" + tt.setup)
			before := picture(b.node)
			refused(t, b.node, tt.want)
			if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
				t.Errorf("before (-) and after (+):\n%s", diff)
			}
		})
	}
}

func TestAQuestionAboutANextHopObjectThatIsGoneMakesNone(t *testing.T) {
	b := newBed(t)
	b.node.Run("ip link set hca0 up; ip addr add 10.7.0.2/24 dev hca0; ip nexthop add id 7 via 10.7.0.1 dev hca0")
	in(t, b.node, func(c *snapshot.Conn) error {
		l, err := netlink.LinkByName("hca0")
		if err != nil {
			return err
		}
		list, _, err := inet.ReadNexthops(c.Route, l.Attrs().Index)
		if err != nil || len(list) != 1 {
			t.Fatalf("next hop objects: %v: %v", list, err)
		}
		b.node.Run("ip nexthop del id 7")
		_, err = inet.RefusedNexthop(c.Route, l.Attrs().Index, list, nil)
		return err
	})
	if out := b.node.Run("ip nexthop show"); out != "" {
		t.Errorf("the node has a next hop object that was removed: %s", out)
	}
}

func TestAnXDPProgramIsRefused(t *testing.T) {
	b := newBed(t)
	err := b.node.Do(func() error {
		l, err := netlink.LinkByName("hca0")
		if err != nil {
			return err
		}
		fd := load(t, unix.BPF_PROG_TYPE_XDP)
		defer unix.Close(fd)
		return netlink.LinkSetXdpFd(l, fd)
	})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, b.node, "hca0 has an XDP program attached")
}

func TestABPFProgramThatEncapsulatesIsRefused(t *testing.T) {
	for name, give := range map[string]func(index int, encap netlink.Encap) *netlink.Route{
		"a route": func(index int, encap netlink.Encap) *netlink.Route {
			return &netlink.Route{LinkIndex: index, Encap: encap}
		},
		"one of several next hops": func(index int, encap netlink.Encap) *netlink.Route {
			return &netlink.Route{MultiPath: []*netlink.NexthopInfo{{LinkIndex: index}, {LinkIndex: index, Encap: encap}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.node.Run("ip link set hca0 up; ip addr add 10.0.0.2/24 dev hca0")
			err := b.node.Do(func() error {
				l, err := netlink.LinkByName("hca0")
				if err != nil {
					return err
				}
				encap := new(netlink.BpfEncap)
				fd := load(t, unix.BPF_PROG_TYPE_LWT_OUT)
				defer unix.Close(fd)
				if err := encap.SetProg(nl.LWT_BPF_OUT, fd, "out"); err != nil {
					return err
				}
				route := give(l.Attrs().Index, encap)
				_, route.Dst, _ = net.ParseCIDR("10.9.0.0/16")
				return netlink.RouteAdd(route)
			})
			if err != nil {
				t.Fatal(err)
			}
			refused(t, b.node, "a BPF program encapsulates what route 10.9.0.0/16")
		})
	}
}

// load loads the program `return 2`, which is XDP_PASS.
func load(t *testing.T, kind uint32) int {
	program := []uint64{0x2_0000_00b7, 0x95} // r0 = 2; exit
	license := []byte("GPL\x00")
	// union bpf_attr of BPF_PROG_LOAD (linux/bpf.h).
	attr := struct {
		kind, count       uint32
		program, license  uint64
		logLevel, logSize uint32
		log               uint64
	}{
		kind:    kind,
		count:   uint32(len(program)),
		program: uint64(uintptr(unsafe.Pointer(&program[0]))),
		license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		t.Fatalf("load a BPF program of type %d: %v", kind, errno)
	}
	return int(fd)
}

func refused(t *testing.T, ns *netnstest.NS, want string) {
	t.Helper()
	in(t, ns, func(c *snapshot.Conn) error {
		_, err := c.Settings(find(t, c, "hca0").Index)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Settings: %v, want an error with %q", err, want)
		}
		return nil
	})
}

// chainOf makes a table "t" of nftables with a chain "c" at an end of an interface.
func chainOf(t *testing.T, ns *netnstest.NS, family nftables.TableFamily, hook *nftables.ChainHook, device string) {
	t.Helper()
	err := ns.Do(func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		table := c.AddTable(&nftables.Table{Family: family, Name: "t"})
		c.AddChain(&nftables.Chain{Table: table, Name: "c", Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityFilter, Device: device})
		return c.Flush()
	})
	if err != nil {
		t.Fatalf("make a chain of nftables: %v", err)
	}
}

func TestAChainOfNftablesThatNamesTheInterfaceIsRefused(t *testing.T) {
	const inetIngress = 5 // NF_INET_INGRESS of linux/netfilter.h
	for _, c := range []struct {
		what   string
		family nftables.TableFamily
		hook   nftables.ChainHook
	}{
		{what: "what comes in", family: nftables.TableFamilyNetdev, hook: unix.NF_NETDEV_INGRESS},
		{what: "what goes out", family: nftables.TableFamilyNetdev, hook: unix.NF_NETDEV_EGRESS},
		{what: "what comes in of IP", family: nftables.TableFamilyINet, hook: inetIngress},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newBed(t)
			chainOf(t, b.node, c.family, &c.hook, "hca0")
			refused(t, b.node, "hca0 is in chain c of the nftables table t")
		})
	}
}

func TestAChainOfNftablesThatNamesAnotherInterfaceIsNone(t *testing.T) {
	b := newBed(t)
	b.node.Run(other)
	chainOf(t, b.node, nftables.TableFamilyNetdev, nftables.ChainHookIngress, "other")
	in(t, b.node, func(c *snapshot.Conn) error {
		return c.Once(func() error {
			for range 2 {
				if _, err := c.Settings(find(t, c, "hca0").Index); err != nil {
					return err
				}
			}
			if _, err := c.Settings(find(t, c, "other").Index); err == nil {
				t.Error("other is not refused")
			}
			return nil
		})
	})
}
