package ports_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	tcxlink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/ports"
	"gresnet/test/await"
	"gresnet/test/netnstest"
)

// twoJobs makes a world with two jobs on both nodes, j and k.
func twoJobs(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.share("n1", "n2")
	w.job("j", 1, firstUser, firstBlock, "n1", "n2")
	w.job("k", 2, secondUser, secondBlock, "n1", "n2")
	return w
}

func TestAJobHasItsNodesAddressWhereverItCalls(t *testing.T) {
	w := twoJobs(t)
	w.serve("h", "h", "", 53, 80)
	w.serve("inet", "inet", "", 53)
	w.serve("st", "st", "", 53)
	for _, node := range []string{"n1", "n2"} {
		w.serve(node, node, "", 22, 111, 9100)
		w.serve(node, node, "", slurmdPort)
	}
	w.serve("j-1", "j", "", 8080)
	w.serve("j-2", "j", "", 8080)
	w.serve("k-2", "k", "", 8080, 7777)

	w.wants("a host of the node's network", "j-1", "192.0.2.99:53", "h 192.0.2.1")
	w.wants("a host beyond the router", "j-1", "203.0.113.9:53", "inet 192.0.2.1")
	w.wants("a host of the node's second network", "j-1", "198.51.100.50:53", "st 198.51.100.1")
	w.wants("the job itself, by the node's address", "j-1", "192.0.2.1:8080", "j 192.0.2.1")
	w.wants("the job's end on another node", "j-1", "192.0.2.2:8080", "j 192.0.2.1")
	w.wants("back", "j-2", "192.0.2.1:8080", "j 192.0.2.2")
	w.wants("another job on the same nodes, of the same ports", "k-1", "192.0.2.2:8080", "k 192.0.2.1")
	for _, port := range []string{"22", "111", fmt.Sprint(slurmdPort)} {
		w.wants("a service of its node", "j-1", "192.0.2.1:"+port, "n1 192.0.2.1")
		w.wants("a service of its other node", "j-1", "192.0.2.2:"+port, "n2 192.0.2.1")
	}
	w.wants("a port of its node that is no service's", "j-1", "192.0.2.1:9100", refused)
	w.wants("one of its other node", "j-1", "192.0.2.2:9100", refused)
	w.wants("a port that another job has", "j-1", "192.0.2.2:7777", refused)
	w.wantsBy("tcp", "its node's second address", "j-1", "198.51.100.1:22", "n1 192.0.2.1")
	w.wantsBy("udp", "nobody there", "j-1", "192.0.2.99:9999", refused)
	w.wantsBy("udp", "nobody on the second network", "j-1", "198.51.100.50:9999", refused)
	w.wantsBy("udp", "nobody on its node", "j-1", "192.0.2.1:1000", refused)
	w.wantsBy("udp", "nobody in the job", "h", "192.0.2.1:17999", refused)
}

func TestAJobCallsByAnInterfaceThatHasAnothersAddress(t *testing.T) {
	w := newWorld(t)
	w.at["n1"].Run(fmt.Sprintf(`ip link add peer0 type veth peer name eth1 netns %s
		ip link set peer0 up; ip route add 203.0.113.77 dev peer0 src 192.0.2.1`, w.at["h"].Path))
	w.at["h"].Run("ip addr add 203.0.113.77/32 dev lo; ip link set eth1 up; ip route add 192.0.2.1 dev eth1 src 203.0.113.77")
	w.share("n1")
	s := w.settings("n1")
	w.do("n1", func() error {
		i, err := netlink.LinkByName("peer0")
		if err != nil {
			return err
		}
		s.Uplinks = append(s.Uplinks, ports.Uplink{Index: i.Attrs().Index, Address: netip.MustParseAddr("192.0.2.1")})
		return w.nodes["n1"].Attach(s)
	})
	w.end("j", 1, firstUser, firstBlock, "n1", []string{"n1"}, false)
	w.serve("h", "h", "203.0.113.77", 53)
	w.wants("a neighbor", "j", "203.0.113.77:53", "h 192.0.2.1")
	w.wantsBy("udp", "nobody there", "j", "203.0.113.77:9999", refused)
}

func TestSlurmCallsAJobAtItsBlock(t *testing.T) {
	w := twoJobs(t)
	for _, end := range []string{"j-1", "k-1"} {
		w.serve(end, end, "", aPort, anotherPort, 8080)
	}
	at, other := fmt.Sprintf("192.0.2.1:%d", aPort), fmt.Sprintf("192.0.2.1:%d", anotherPort)
	w.wantsBy("tcp", "slurmctld", "h", at, "j-1 192.0.2.99")
	w.wantsBy("tcp", "slurmctld to the other job", "h", other, "k-1 192.0.2.99")
	w.wantsBy("tcp", "a process of another node", "n2", at, "j-1 198.19.0.2")
	w.wantsBy("tcp", "root on the job's node", "n1", at, "j-1 198.19.0.1")
	w.wantsBy("tcp", "SlurmUser on the job's node", "n1", at, "j-1 198.19.0.1", user(slurmUser))
	w.wantsBy("tcp", "the job's user on the job's node", "n1", at, "j-1 198.19.0.1", user(firstUser))
	w.wantsBy("udp", "datagrams that nobody asked for", "inet", at, "j-1 203.0.113.9")
	w.wantsBy("tcp", "a port outside of the block", "h", "192.0.2.1:8080", refused)

	w.drops("tcp", "another user of the node", "n1", at, "n1", anyUser, user(secondUser))
	w.drops("udp", "another user of the node", "n1", at, "n1", anyUser, user(secondUser))
	w.drops("udp", "another user of the node, from a service's port", "n1", at, "n1", anyUser, user(secondUser), fromPort(slurmdPort))
	w.drops("tcp", "the job's user, in the other job's block", "n1", other, "n1", anyUser, user(firstUser))
	w.drops("tcp", "root, by another address of the node", "n1", fmt.Sprintf("198.51.100.1:%d", aPort), "n1", anyUser)
	w.drops("tcp", "a host that is none of Slurm's", "inet", at, "n1", caller)
	w.drops("tcp", "a job on another node", "k-2", at, "n1", caller, device("uplink0"))
	w.drops("tcp", "another job on the node", "k-1", at, "n1", target, device("uplink0"))
	w.drops("udp", "another job on the node", "k-1", at, "n1", target, device("uplink0"))
}

// A job's prolog knows its own nodes, and of others what it reads of slurm.conf: names are not looked up.
func TestWhoCallsAJobStaysWhenAnotherJobBegins(t *testing.T) {
	w := twoJobs(t)
	w.serve("j-1", "j", "", aPort)
	at := fmt.Sprintf("192.0.2.1:%d", aPort)
	s := w.settings("n1")
	for name, callers := range map[string][]netip.Prefix{
		"a job on other nodes":       {netip.MustParsePrefix("192.0.2.77/32")},
		"a job without a slurm.conf": nil,
	} {
		s.Callers, s.SlurmUser = callers, 0
		if callers != nil {
			s.SlurmUser = slurmUser
		}
		w.do("n1", func() error { return w.nodes["n1"].Attach(s) })
		w.wantsBy("tcp", "slurmctld after "+name, "h", at, "j 192.0.2.99")
		w.wantsBy("tcp", "SlurmUser after "+name, "n1", at, "j 198.19.0.1", user(slurmUser))
		w.wantsBy("tcp", "the job's other node after "+name, "n2", at, "j 198.19.0.2")
	}
}

func TestAJobsOtherNodesCallItThoughSlurmConfHasNoAddressOfTheirs(t *testing.T) {
	w := newWorld(t)
	w.nodes["n1"] = pins(t)
	s := w.settings("n1")
	s.Callers = []netip.Prefix{netip.MustParsePrefix("192.0.2.99/32")}
	w.do("n1", func() error { return w.nodes["n1"].Attach(s) })
	w.end("j", 1, firstUser, firstBlock, "n1", []string{"n1", "n2"}, false)
	w.serve("j", "j", "", aPort)
	at := fmt.Sprintf("192.0.2.1:%d", aPort)
	w.wantsBy("tcp", "the job's other node", "n2", at, "j 198.19.0.2")
	w.drops("tcp", "a host that is none of Slurm's", "inet", at, "n1", caller)
}

func TestNobodyElseOnTheNodeHasAPortOfAJob(t *testing.T) {
	w := twoJobs(t)
	w.serve("j-1", "j", "", aPort)
	w.serve("h", "h", "", 53)
	w.serve("n1", "dns", "", 53)
	// In vain: another user listens on a port of the job's, and one that no job has.
	w.serveAs(secondUser, "n1", "squatter", "", aPort, 30000)
	at := fmt.Sprintf("192.0.2.1:%d", aPort)
	w.wantsBy("tcp", "slurmctld", "h", at, "j 192.0.2.99")
	w.wantsBy("udp", "slurmctld", "h", at, "j 192.0.2.99")
	w.wantsBy("tcp", "a process of another node", "n2", at, "j 198.19.0.2")
	w.wantsBy("tcp", "root on the node", "n1", at, "j 198.19.0.1")
	w.wants("a port that no job has", "h", "192.0.2.1:30000", "squatter 192.0.2.99")
	for _, u := range []int{0, secondUser} {
		w.drops("udp", "from a port of the job's", "n1", "192.0.2.99:53", "n1", shadow, fromPort(16602), user(u))
		w.drops("tcp", "from a port of the job's", "n1", "192.0.2.99:53", "n1", shadow, fromPort(16602), user(u))
		w.drops("udp", "so that the node's service answers to the job", "n1", "192.0.2.1:53", "n1", shadow, fromPort(16602), user(u))
	}
	w.wants("from another port", "n1", "192.0.2.99:53", "h 192.0.2.1", user(secondUser))
	w.wants("the node's own service", "n1", "192.0.2.1:53", "dns 192.0.2.1", user(secondUser))
}

func TestAJobSendsFromItsOwnPortsAlone(t *testing.T) {
	w := twoJobs(t)
	w.serve("h", "h", "", 53)
	w.serve("k-2", "k", "", 7777)
	w.serve("j-2", "j", "", 7777)
	others := []int{53, slurmdPort, anotherPort, 40000}
	for _, port := range others {
		w.wants("an error at once", "j-1", "192.0.2.99:53", "permission denied", fromPort(port), user(firstUser))
	}
	w.wants("from such a port to the job's own node", "j-1", "192.0.2.2:7777", "j 192.0.2.1", fromPort(40000))
	for range 4 { // root in the job can do this, its user cannot
		w.at["j-1"].IP("rule del pref 300")
	}
	for _, n := range others {
		w.refuses("udp", "without the job's rules", "j-1", "192.0.2.99:53", "n1", port, fromPort(n))
		w.refuses("tcp", "without the job's rules", "j-1", "192.0.2.99:53", "n1", port, fromPort(n))
	}
}

func TestAJobReachesNothingBesideServicesOnItsNode(t *testing.T) {
	w := twoJobs(t)
	w.serve("n1", "n1", "", 22, 9100)
	w.serve("n2", "n2", "", 9100)
	w.serve("inet", "metadata", "", 80)
	w.wantsBy("tcp", "its own loopback", "j-1", "127.0.0.1:22", refused)
	for _, proto := range []string{"tcp", "udp"} {
		w.drops(proto, "a user's port, bound to the device", "j-1", "192.0.2.1:9100", "n1", target, device("uplink0"))
		w.drops(proto, "a user's port, by the node's second address", "j-1", "198.51.100.1:9100", "n1", target)
		w.drops(proto, "a user's port, by what stands for the node", "j-1", "198.19.0.1:9100", "n1", target)
		w.drops(proto, "the other job, by what stands for a node", "k-1", "198.19.0.2:8080", "n1", target)
	}
	if got := w.callFor(await.Slow(300e6), "j-1", "tcp", "192.0.2.2:9100", device("uplink0")); got != silence {
		t.Errorf("a user's port on the other node answers the job: %q", got)
	}
	s := w.settings("n1")
	s.Denied = []netip.Prefix{netip.MustParsePrefix("203.0.113.8/29")}
	w.wantsBy("tcp", "an address before it is denied", "j-1", "203.0.113.9:80", "metadata 192.0.2.1")
	w.do("n1", func() error { return w.nodes["n1"].Attach(s) })
	w.drops("tcp", "a denied address", "j-1", "203.0.113.9:80", "n1", target)
}

// datagram returns a UDP datagram with a header of its own.
func datagram(from, to string, fromPort, toPort int) []byte {
	src, dst := netip.MustParseAddr(from).As4(), netip.MustParseAddr(to).As4()
	b := []byte{0x45, 0, 0, 31, 0, 0, 0, 0, 64, 17, 0, 0}
	b = append(append(b, src[:]...), dst[:]...)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, uint16(fromPort)), uint16(toPort))
	return append(b, 0, 11, 0, 0, 'r', 'a', 'w')
}

// raw sends a packet as it is.
func (w *world) raw(on, to string, packet []byte) {
	w.t.Helper()
	w.do(on, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_ = unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(to).As4()}) // the job's own kernel may refuse it
		return nil
	})
}

func TestAForgedSourceLeavesNoJobAndEntersNoNode(t *testing.T) {
	w := twoJobs(t)
	var heard []string
	got := make(chan string, 100)
	w.do("h", func() error {
		u, err := net.ListenPacket("udp4", ":7")
		if err != nil {
			return err
		}
		t.Cleanup(func() { u.Close() })
		go func() {
			b := make([]byte, 100)
			for {
				_, from, err := u.ReadFrom(b)
				if err != nil {
					return
				}
				got <- from.String()
			}
		}()
		return nil
	})
	before := w.dropped("n1", source)
	forgeries := []string{"192.0.2.77", "192.0.2.2", "198.19.0.2", "8.8.8.8", "198.51.100.1"}
	for _, from := range forgeries {
		w.raw("j-1", "192.0.2.99", datagram(from, "192.0.2.99", 16999, 7))
	}
	await.Until(t, "the node has dropped the forgeries", func() bool { return w.dropped("n1", source) >= before+uint64(len(forgeries)) })
	w.raw("j-1", "192.0.2.99", datagram("192.0.2.1", "192.0.2.99", 16999, 7))
	heard = append(heard, await.Value(t, "the job's own datagram arrives", got))
	if len(got) > 0 || heard[0] != "192.0.2.1:16999" {
		t.Errorf("h has heard %v, and %d more", heard, len(got))
	}
	before = w.dropped("n1", forged)
	w.raw("h", "192.0.2.1", datagram("192.0.2.1", "192.0.2.1", 700, 22))
	w.raw("h", "192.0.2.1", datagram("198.51.100.1", "192.0.2.1", 700, 22))
	await.Until(t, "the node has dropped what claims to come from itself", func() bool { return w.dropped("n1", forged) >= before+2 })
}

func TestConnectionsOfJobsAreNotTracked(t *testing.T) {
	if out, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max"); err != nil {
		netnstest.Skip(t, fmt.Sprintf("needs a kernel that tracks connections: %s %v", out, err))
	}
	w := twoJobs(t)
	w.serve("inet", "inet", "", 80)
	w.serve("n1", "n1", "", 22)
	needs(t, "nftables")
	w.at["n1"].Run(`nft 'table inet site {
		chain i { type filter hook input priority 0; ct state established accept; }
		chain o { type filter hook output priority 0; ct state established accept; }
		chain f { type filter hook forward priority 0; policy drop; ct state established accept; }; }'`)
	w.wantsBy("tcp", "a tracked connection of the node", "n1", "203.0.113.9:80", "inet 192.0.2.1")
	w.serve("j-1", "j", "", aPort)
	tracked := func() string {
		return strings.TrimSpace(w.at["n1"].Run("cat /proc/sys/net/netfilter/nf_conntrack_count"))
	}
	before := tracked()
	if before == "0" {
		t.Fatal("the node does not track its own connection")
	}
	for _, c := range []struct{ what, on, to, want string }{
		{"to a host", "j-1", "203.0.113.9:80", "inet 192.0.2.1"},
		{"from a host", "h", fmt.Sprintf("192.0.2.1:%d", aPort), "j 192.0.2.99"},
	} {
		for range 250 {
			w.wantsBy("tcp", c.what, c.on, c.to, c.want)
		}
		if after := tracked(); after != before {
			t.Errorf("after connections %s, the node tracks %s, before %s", c.what, after, before)
			before = after
		}
	}
	// These are the node's, too. It keeps what it keeps of a program of its own.
	w.wantsBy("tcp", "to its own node", "j-1", "192.0.2.1:22", "n1 192.0.2.1")
	w.wantsBy("tcp", "from its own node", "n1", fmt.Sprintf("192.0.2.1:%d", aPort), "j 198.19.0.1")
}

func TestPingPathMTUAndFragmentsWorkInAJob(t *testing.T) {
	needs(t, "iputils-ping")
	w := twoJobs(t)
	w.serve("h", "h", "", 53)
	w.serve("st", "st", "", 53)
	w.serve("n1", "n1", "", 53)
	j := w.at["j-1"]
	for _, to := range []string{"192.0.2.2", "192.0.2.99", "203.0.113.9", "198.51.100.50", "192.0.2.1"} {
		j.Run("ping -qc1 -W5 " + to)
	}
	w.at["h"].Run("ping -qc1 -W5 192.0.2.1") // the node itself
	j.Run("ping -qc1 -W5 -M do -s 1472 192.0.2.99")
	j.Run("ping -qc1 -W5 -s 4000 192.0.2.99; ping -qc1 -W5 -s 4000 192.0.2.1")
	if out := j.Run("ping -c1 -W5 -t1 203.0.113.9 || true"); !strings.Contains(out, "192.0.2.254") {
		t.Errorf("the router's error about a packet's time to live does not reach the job: %s", out)
	}
	w.at["r"].IP("link set out mtu 1400")
	if out := j.Run("ping -c2 -W5 -M do -s 1472 203.0.113.9 2>&1 || true"); !strings.Contains(out, "mtu") {
		t.Errorf("the router's error about the path's MTU does not reach the job: %s", out)
	}
	for to, want := range map[string]string{
		"192.0.2.99:53": "h 192.0.2.1 (4000 bytes)", "198.51.100.50:53": "st 198.51.100.1 (4000 bytes)", "192.0.2.1:53": "n1 192.0.2.1 (4000 bytes)",
	} {
		w.wantsBy("udp", "in fragments, there and back", "j-1", to, want, sized(4000))
	}
}

func TestAJobWithTheNodeToItselfHasWhatNobodyHas(t *testing.T) {
	w := newWorld(t)
	w.share("n1", "n2")
	w.end("w", 1, firstUser, firstBlock, "n1", []string{"n1", "n2"}, true)
	w.serve("w", "w", "", 8080, 9200)
	w.serve("n1", "n1", "", 9100, 9200)
	w.serve("h", "h", "", 53)
	w.wants("a port of the job's", "h", "192.0.2.1:8080", "w 192.0.2.99")
	w.wants("from beyond", "inet", "192.0.2.1:8080", "w 203.0.113.9")
	w.wantsBy("tcp", "from its other node", "n2", "192.0.2.1:8080", "w 198.19.0.2")
	w.wants("a port of the node's", "h", "192.0.2.1:9100", "n1 192.0.2.99")
	w.wants("one that both have", "h", "192.0.2.1:9200", "n1 192.0.2.99")
	w.wantsBy("udp", "nobody at a port that the job could have", "h", "192.0.2.1:9300", refused)
	w.end("later", 2, secondUser, secondBlock, "n1", []string{"n1"}, true)
	w.serve("later", "later", "", 8080)
	w.wants("the later one of two such jobs", "h", "192.0.2.1:8080", "later 192.0.2.99")
	jobs, err := w.nodes["n1"].Jobs()
	for _, j := range jobs {
		if err == nil && j.ID == 2 {
			err = w.nodes["n1"].Remove(j.Veth)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	w.wants("the first one when the later one has ended", "h", "192.0.2.1:8080", "w 192.0.2.99")
	w.wants("from a port of its own", "w", "192.0.2.99:53", "h 192.0.2.1", fromPort(8081))
	for _, n := range []int{9100, 53, slurmdPort, 40000, 30000} {
		w.refuses("udp", "from a port of the node's", "w", "192.0.2.99:53", "n1", port, fromPort(n))
	}
}

func TestTheNodesSettingsDoNotEndAJobsWayOut(t *testing.T) {
	w := twoJobs(t)
	w.serve("h", "h", "", 53)
	w.serve("n1", "n1", "", 22)
	w.serve("j-1", "j", "", aPort)
	for _, line := range []string{
		"sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.eth0.rp_filter=1",
		"sysctl -qw net.ipv4.conf.all.rp_filter=2",
		"sysctl -qw net.ipv4.conf.all.forwarding=1; sysctl -qw net.ipv4.conf.all.forwarding=0",
		"ip neigh flush dev eth0",
	} {
		w.at["n1"].Run(line)
		w.wants(line, "j-1", "192.0.2.99:53", "h 192.0.2.1")
		w.wants(line, "j-1", "192.0.2.1:22", "n1 192.0.2.1")
		w.wantsBy("tcp", line, "n1", fmt.Sprintf("192.0.2.1:%d", aPort), "j 198.19.0.1")
		w.wantsBy("tcp", line, "h", fmt.Sprintf("192.0.2.1:%d", aPort), "j 192.0.2.99")
	}
}

// picture returns all that Attach changes on a node.
func (w *world) picture(name string) string {
	w.t.Helper()
	return w.at[name].Run(`for i in lo eth0 eth1; do [ -d /sys/class/net/$i ] || continue
		tc qdisc show dev $i; for h in ingress egress; do tc filter show dev $i $h 2>/dev/null || true; done; done
		cat /proc/sys/net/ipv4/conf/*/accept_local`)
}

func TestANodeComesBackAsItWasFromSharingItsPorts(t *testing.T) {
	w := newWorld(t)
	w.nodes["n1"] = pins(t)
	n := w.nodes["n1"]
	for _, before := range []string{
		"true", "tc qdisc add dev eth0 clsact", "sysctl -qw net.ipv4.conf.eth0.accept_local=1",
		"tc qdisc add dev eth1 clsact; tc filter add dev eth1 ingress prio 7 bpf bytecode '1,6 0 0 0,' da",
	} {
		w.at["n1"].Run(before)
		was := w.picture("n1")
		s := w.settings("n1")
		w.do("n1", func() error {
			had, err := ports.Look(s)
			if err != nil {
				return err
			}
			for range 2 { // the second job finds it there
				if err := n.Attach(s); err != nil {
					return err
				}
			}
			return n.Detach(had)
		})
		if diff := netnstest.Diff(was, w.picture("n1")); diff != "" {
			t.Errorf("after %q, sharing and its end, the node is another one:\n%s", before, diff)
		}
		if _, err := os.Lstat(n.Pins); !os.IsNotExist(err) {
			t.Errorf("pins are left: %v", err)
		}
	}
}

func TestKeptProgramsStayAfterTheLastJobAndKnowNothingOfIt(t *testing.T) {
	w := newWorld(t)
	n := pins(t)
	w.nodes["n1"] = n
	if err := n.Keep(); err != nil {
		t.Fatal(err)
	}
	was, s := w.picture("n1"), w.settings("n1")
	pinned := names(t, n.Pins)
	for range 2 {
		w.do("n1", func() error {
			if err := n.Refresh(); err != nil {
				return err
			}
			had, err := ports.Look(s)
			if err != nil {
				return err
			}
			if err := n.Attach(s); err != nil {
				return err
			}
			return n.Detach(had)
		})
		if now := names(t, n.Pins); now != pinned {
			t.Errorf("pins were %s and are %s", pinned, now)
		}
		for _, name := range []string{"callers", "uplinks", "jobs"} {
			m, err := bpf.OpenMap(n.Pins + "/" + name)
			if err != nil {
				t.Fatal(err)
			}
			left, err := bpf.Keys[uint64](m)
			if len(left) != 0 || errors.Join(err, m.Close()) != nil {
				t.Errorf("%s has %d entries without a job, %v", name, len(left), err)
			}
		}
		if diff := netnstest.Diff(was, w.picture("n1")); diff != "" {
			t.Errorf("the node is another one:\n%s", diff)
		}
		w.do("n1", func() error {
			blind, err := n.Unjudged()
			if len(blind) > 0 {
				t.Errorf("interfaces %v count as not judged, without a job", blind)
			}
			return err
		})
	}
	mark := n.Pins + "/" + strings.Fields(pinned)[slices.IndexFunc(strings.Fields(pinned), func(name string) bool { return strings.HasPrefix(name, "kept-") })]
	if err := os.Rename(mark, n.Pins+"/kept-0000"); err != nil {
		t.Fatal(err)
	}
	if err := n.Refresh(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(n.Pins); !os.IsNotExist(err) {
		t.Errorf("programs that another version kept are there: %v", err)
	}
}

// names returns the names of what is pinned in a folder.
func names(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

func TestAJobsEntryEndsAllThatItHas(t *testing.T) {
	w := twoJobs(t)
	w.serve("j-1", "j", "", aPort)
	w.serve("k-1", "k", "", anotherPort)
	n := w.nodes["n1"]
	jobs, err := n.Jobs()
	if err != nil || len(jobs) != 2 {
		t.Fatalf("the node has the jobs %v, %v", jobs, err)
	}
	for range 2 {
		if err := n.Remove(jobs[slices.IndexFunc(jobs, func(j ports.Job) bool { return j.ID == 1 })].Veth); err != nil {
			t.Fatal(err)
		}
	}
	w.wantsBy("tcp", "a job that has ended", "h", fmt.Sprintf("192.0.2.1:%d", aPort), refused)
	w.drops("tcp", "a job that has ended sends", "j-1", "192.0.2.99:53", "n1", kind)
	w.wantsBy("tcp", "the other one", "h", fmt.Sprintf("192.0.2.1:%d", anotherPort), "k 192.0.2.99")
	w.end("l-1", 3, firstUser, firstBlock, "n1", []string{"n1"}, false)
	w.serve("l-1", "l", "", aPort)
	w.wantsBy("tcp", "who has its ports next", "h", fmt.Sprintf("192.0.2.1:%d", aPort), "l 192.0.2.99")
	if err := n.Admit(ports.Job{ID: 4, Veth: 999, Address: netip.MustParseAddr("192.0.2.1"), Block: firstBlock}); err == nil {
		t.Error("two jobs have one block")
	}
}

func TestAProgramThatIsAskedFirstIsNamed(t *testing.T) {
	w := newWorld(t)
	w.nodes["n1"] = pins(t)
	w.at["n1"].Run("tc qdisc add dev eth0 clsact; tc filter add dev eth0 ingress prio 1 bpf bytecode '1,6 0 0 0,' da")
	s := w.settings("n1")
	was := w.picture("n1")
	w.do("n1", func() error {
		if err := w.nodes["n1"].Attach(s); err == nil || !strings.Contains(err.Error(), "eth0 has a traffic filter, bpf") {
			t.Errorf("got %v", err)
		}
		return nil
	})
	if diff := netnstest.Diff(was, w.picture("n1")); diff != "" {
		t.Errorf("the node has changed:\n%s", diff)
	}
	w.at["n1"].Run("tc filter del dev eth0 ingress prio 1")
	if end := w.tcx("n1", s.Uplinks[0].Index); end != nil {
		w.do("n1", func() error {
			if err := w.nodes["n1"].Attach(s); err == nil || !strings.Contains(err.Error(), "eth0 has a program of tcx") {
				t.Errorf("got %v", err)
			}
			return end()
		})
	}
	w.at["n1"].Run("tc filter add dev eth0 ingress prio 2 bpf bytecode '1,6 0 0 0,' da")
	w.share("n1")
	w.end("j-1", 1, firstUser, firstBlock, "n1", []string{"n1"}, false)
	w.serve("j-1", "j", "", aPort)
	w.wantsBy("tcp", "beside a later filter", "h", fmt.Sprintf("192.0.2.1:%d", aPort), "j 192.0.2.99")
}

// tcx attaches a program as Cilium does, and returns what ends it: nil before Linux 6.6.
func (w *world) tcx(on string, index int) (end func() error) {
	w.t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.SchedCLS, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}, License: "GPL",
	})
	if err != nil {
		w.t.Fatal(err)
	}
	defer p.Close()
	w.do(on, func() error {
		l, err := tcxlink.AttachTCX(tcxlink.TCXOptions{Interface: index, Program: p, Attach: ebpf.AttachTCXIngress})
		if err == nil {
			end = l.Close
		}
		return nil
	})
	return end
}

func TestWhatAKilledRunLeftIsInNobodysWay(t *testing.T) {
	w := newWorld(t)
	n := pins(t)
	if err := os.MkdirAll(n.Pins+"-aside-1", 0o700); err != nil {
		t.Fatal(err)
	}
	m, err := bpf.MakeMap(bpf.Layout{Kind: unix.BPF_MAP_TYPE_ARRAY, Key: 4, Value: 4, Entries: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(m.Pin(n.Pins+"-aside-1/node"), m.Close()); err != nil {
		t.Fatal(err)
	}
	w.nodes["n1"] = n
	w.share("n1")
	w.end("j-1", 1, firstUser, firstBlock, "n1", []string{"n1"}, false)
	// It has given the job half of its block, and has noted no more.
	blocks, err := bpf.OpenMap(n.Pins + "/blocks")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(bpf.Put(blocks, uint32(firstBlock.First/ports.Grain), uint32(0)), blocks.Close()); err != nil {
		t.Fatal(err)
	}
	jobs, err := n.Jobs()
	if err != nil || len(jobs) != 1 {
		t.Fatalf("the node has the jobs %v, %v", jobs, err)
	}
	if err := n.Remove(jobs[0].Veth); err != nil {
		t.Fatal(err)
	}
	w.end("k-1", 2, secondUser, firstBlock, "n1", []string{"n1"}, false)
	w.serve("k-1", "k", "", aPort)
	w.wantsBy("tcp", "who has the ports next", "h", fmt.Sprintf("192.0.2.1:%d", aPort), "k 192.0.2.99")
}

func TestAProgramThatTellsWhatTheNodeHasTakesNoPortsFromAJobThatBegins(t *testing.T) {
	w := newWorld(t)
	n := pins(t)
	s := w.settings("n1")
	w.do("n1", func() error { return n.Attach(s) })
	m, err := bpf.OpenMap(n.Pins + "/whole")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	stop, ended := make(chan struct{}), make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				ended <- nil
				return
			default:
				err = w.at["n1"].Do(func() error { return n.Attach(s) })
			}
		}
		ended <- err
	}()
	has := func(want uint32, when string) {
		t.Helper()
		if got, err := bpf.Get[uint32, uint32](m, 0); got != want || err != nil {
			t.Fatalf("%s: the job with veth %d has all ports, want %d: %v", when, got, want, err)
		}
	}
	for k := range 300 {
		j := ports.Job{ID: 1, Veth: 1000 + k%2, Address: netip.MustParseAddr("192.0.2.1"), Block: firstBlock, Whole: true}
		if err := n.Admit(j); err != nil {
			t.Fatal(err)
		}
		has(uint32(j.Veth), "it began")
		if err := n.Remove(j.Veth); err != nil {
			t.Fatal(err)
		}
		has(0, "it ended")
	}
	close(stop)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

func TestJobsThatBeginAndEndAtOnceAreNotInEachOthersWay(t *testing.T) {
	w := newWorld(t)
	n := pins(t)
	s := w.settings("n1")
	at := make(chan int, 8)
	failed := make(chan error, 8)
	for k := range cap(at) {
		at <- k
		go func() {
			k := <-at
			j := ports.Job{ID: uint32(k), Veth: 1000 + k, Address: netip.MustParseAddr("192.0.2.1"), Block: ports.Block{First: ports.First + k*1024, Last: ports.First + k*1024 + 1023}}
			err := w.at["n1"].Do(func() error { return n.Attach(s) })
			for range 100 {
				if err == nil {
					err = n.Admit(j)
				}
				if err == nil {
					err = n.Remove(j.Veth)
				}
			}
			failed <- err
		}()
	}
	for range cap(at) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if jobs, err := n.Jobs(); err != nil || len(jobs) > 0 {
		t.Errorf("jobs are left: %v, %v", jobs, err)
	}
	if left, err := os.ReadDir(n.Pins + "/.."); err != nil || len(left) != 1 {
		t.Errorf("beside the pins there is %v, %v", left, err)
	}
}

// datagramWithOptions returns datagram with an option that does nothing.
func datagramWithOptions(from, to string, fromPort, toPort int) []byte {
	b := datagram(from, to, fromPort, toPort)
	b[0], b[3] = 0x46, b[3]+4
	return slices.Concat(b[:20], []byte{1, 1, 1, 1}, b[20:])
}

// hear returns what comes by UDP to a port.
func (w *world) hear(on string, port int) chan string {
	w.t.Helper()
	got := make(chan string, 100)
	w.do(on, func() error {
		u, err := net.ListenPacket("udp4", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		w.t.Cleanup(func() { u.Close() })
		go func() {
			b := make([]byte, 1<<16)
			for {
				n, from, err := u.ReadFrom(b)
				if err != nil {
					return
				}
				got <- fmt.Sprintf("%s %d", from, n)
			}
		}()
		return nil
	})
	return got
}

func TestOptionsOfAPacketHideNeitherItsPortsNorItsSource(t *testing.T) {
	w := twoJobs(t)
	atHost, atNode, atSquatter := w.hear("h", 7), w.hear("n1", 7), w.hear("n1", aPort)
	before := w.dropped("n1", shadow)
	w.raw("n1", "192.0.2.99", datagramWithOptions("192.0.2.1", "192.0.2.99", aPort, 7))
	await.Until(t, "the node has dropped what a user sends from a job's port", func() bool { return w.dropped("n1", shadow) > before })
	before = w.dropped("n1", forged)
	w.raw("h", "192.0.2.1", datagramWithOptions("192.0.2.1", "192.0.2.1", 700, 7))
	await.Until(t, "the node has dropped what claims to come from itself", func() bool { return w.dropped("n1", forged) > before })
	before = w.dropped("n1", kind)
	w.raw("h", "192.0.2.1", datagramWithOptions("192.0.2.99", "192.0.2.1", 700, aPort))
	await.Until(t, "the node has dropped what is for a job's port", func() bool { return w.dropped("n1", kind) > before })
	w.raw("h", "192.0.2.1", datagramWithOptions("192.0.2.99", "192.0.2.1", 700, 7))
	if got := await.Value(t, "what is for the node arrives", atNode); got != "192.0.2.99:700 3" {
		t.Errorf("the node hears %s", got)
	}
	if len(atHost)+len(atNode)+len(atSquatter) > 0 {
		t.Errorf("h, the node and who listens at a job's port hear %d, %d and %d more", len(atHost), len(atNode), len(atSquatter))
	}
}

func TestAPacketWithAPriorityReachesTheJob(t *testing.T) {
	w := twoJobs(t)
	got := w.hear("j-1", aPort)
	w.do("h", func() error {
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		to := strings.Fields(w.at["n1"].Run("cat /sys/class/net/eth0/address"))[0]
		mac, err := net.ParseMAC(to)
		if err != nil {
			return err
		}
		packet := datagram("192.0.2.99", "192.0.2.1", 700, aPort)
		binary.BigEndian.PutUint16(packet[10:], checksum(packet[:20]))
		frame := slices.Concat(mac, i.HardwareAddr, []byte{0x81, 0, 0x60, 0, 8, 0}, packet) // VLAN 0, priority 3
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: i.Index})
	})
	if heard := await.Value(t, "the packet arrives", got); heard != "192.0.2.99:700 3" {
		t.Errorf("the job hears %s", heard)
	}
}

// A NIC's driver can leave all but the first bytes of a packet in pages. A packet's socket can, too.
func TestAPacketInPagesReachesTheJob(t *testing.T) {
	w := twoJobs(t)
	atJob, atSquatter := w.hear("j-1", aPort), w.hear("n1", aPort)
	w.at["lan"].Run("for i in br0 to-h to-n1; do ip link set $i mtu 9000; done")
	w.at["n1"].IP("link set eth0 mtu 9000")
	w.at["h"].IP("link set eth0 mtu 9000")
	w.do("h", func() error {
		i, err := net.InterfaceByName("eth0")
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1); err != nil {
			return err
		}
		mac, err := net.ParseMAC(strings.Fields(w.at["n1"].Run("cat /sys/class/net/eth0/address"))[0])
		if err != nil {
			return err
		}
		const size = 6000 // more than a page
		packet := append(datagram("192.0.2.99", "192.0.2.1", 700, aPort), make([]byte, size-3)...)
		binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
		binary.BigEndian.PutUint16(packet[10:], checksum(packet[:20]))
		binary.BigEndian.PutUint16(packet[24:], 8+size)
		linear := [10]byte{2: 34} // virtio_net_hdr: in pages is what comes after the IP header
		frame := slices.Concat(linear[:], mac, i.HardwareAddr, []byte{8, 0}, packet)
		return unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: i.Index})
	})
	select {
	case heard := <-atJob:
		if heard != "192.0.2.99:700 6000" {
			t.Errorf("the job hears %s", heard)
		}
	case heard := <-atSquatter:
		t.Errorf("who listens at a job's port hears %s", heard)
	}
}

// checksum returns the internet's (RFC 1071), of an even number of bytes.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for pair := range slices.Chunk(b, 2) {
		sum += uint32(binary.BigEndian.Uint16(pair))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func TestAPacketThatIsLongerThanTheNodesMTUDoesNotLeave(t *testing.T) {
	w := twoJobs(t)
	got := w.hear("h", 7)
	for _, segment := range []int{0, 3000} {
		before := w.dropped("n1", kind)
		w.do("j-1", func() error {
			return as(firstUser, func() error {
				fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				err = unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
				if err == nil && segment > 0 {
					err = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, segment)
				}
				if err == nil {
					err = unix.Sendto(fd, make([]byte, 9000), 0, &unix.SockaddrInet4{Port: 7, Addr: [4]byte{192, 0, 2, 99}})
				}
				return err
			})
		})
		await.Until(t, "the node has dropped it", func() bool { return w.dropped("n1", kind) > before })
	}
	w.serve("h", "h", "", 53)
	w.wantsBy("udp", "what fits", "j-1", "192.0.2.99:53", "h 192.0.2.1 (1472 bytes)", sized(1472))
	if len(got) > 0 {
		t.Errorf("h hears %s", <-got)
	}
}

// echo sends an echo request with an identifier and returns who answers.
func (w *world) echo(on, to string, id int, wait time.Duration) (from string) {
	w.t.Helper()
	w.do(on, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		limit := unix.NsecToTimeval(wait.Nanoseconds())
		err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Port: id})
		}
		if err == nil {
			err = unix.Sendto(fd, []byte{8, 0, 0, 0, 0, 0, 0, 1}, 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(to).As4()})
		}
		if err != nil {
			return err
		}
		_, who, err := unix.Recvfrom(fd, make([]byte, 100), 0)
		if errors.Is(err, unix.EAGAIN) {
			from = silence
			return nil
		}
		if a, is := who.(*unix.SockaddrInet4); is {
			from = netip.AddrFrom4(a.Addr).String()
		}
		return err
	})
	return from
}

func TestAJobTakesNoAnswerToAnEchoRequestOfTheNodes(t *testing.T) {
	w := twoJobs(t)
	for _, name := range []string{"n1", "j-1"} {
		w.at[name].Run("sysctl -qw net.ipv4.ping_group_range='0 2147483647'")
	}
	for _, who := range []string{"j-1", "n1", "j-1", "n1"} {
		for _, to := range []string{"192.0.2.99", "192.0.2.1"} {
			if got := w.echo(who, to, 4711, await.Slow(5*time.Second)); got != to {
				t.Errorf("%s asks %s: %s", who, to, got)
			}
		}
	}
}

func TestAFragmentForTheNodeDoesNotGoToAJob(t *testing.T) {
	w := twoJobs(t)
	atJob, atNode := w.hear("j-1", aPort), w.hear("n1", 7)
	for _, port := range []int{aPort, 7} {
		whole := datagram("192.0.2.99", "192.0.2.1", 700, port)
		whole = append(whole, make([]byte, 5)...) // 8 bytes of UDP's header, and 8 more
		whole[25] = 16
		for n, payload := range [][]byte{whole[20:28], whole[28:36]} {
			packet := slices.Concat(whole[:20], payload)
			binary.BigEndian.PutUint16(packet[2:], uint16(len(packet)))
			binary.BigEndian.PutUint16(packet[4:], 99) // one identifier for both
			binary.BigEndian.PutUint16(packet[6:], [...]uint16{0x2000, 1}[n])
			w.raw("h", "192.0.2.1", packet)
		}
	}
	for name, got := range map[string]chan string{"the job": atJob, "the node": atNode} {
		if heard := await.Value(t, name+" hears its datagram", got); heard != "192.0.2.99:700 8" {
			t.Errorf("%s hears %s", name, heard)
		}
	}
}

// Where they arrive they would wait for the first one, until the host has no room for fragments of others.
func TestWhatFollowsARefusedFragmentLeavesNoJob(t *testing.T) {
	w := twoJobs(t)
	w.serve("h", "h", "", 53)
	w.serve("n1", "n1", "", 53)
	at := map[string]string{"h": "192.0.2.99:53", "n1": "192.0.2.1:53"}
	for name, to := range at {
		before := w.fragments(name)
		w.refuses("udp", "a datagram in three fragments, from a port that no rule forbids", "j-1", to, "n1", port, fromPort(65535), sized(4000))
		w.wantsBy("udp", "one from its own port", "j-1", to, name+" 192.0.2.1 (4000 bytes)", sized(4000))
		if got := w.fragments(name) - before; got != 3 {
			t.Errorf("%s got %d fragments, want the 3 of the datagram that left the job", name, got)
		}
	}
}

func TestWhatFollowsADroppedFragmentLeavesNoNode(t *testing.T) {
	w := twoJobs(t)
	w.serve("h", "h", "", 53)
	before := w.fragments("h")
	w.drops("udp", "a datagram in three fragments, from a port of a job", "n1", "192.0.2.99:53", "n1", shadow, fromPort(aPort), sized(4000))
	w.wantsBy("udp", "one from another port", "n1", "192.0.2.99:53", "h 192.0.2.1 (4000 bytes)", sized(4000))
	if got := w.fragments("h") - before; got != 3 {
		t.Errorf("the host got %d fragments, want the 3 of the datagram that left the node", got)
	}
}

// fragments returns how many fragments a host has got.
func (w *world) fragments(on string) int {
	w.t.Helper()
	for line := range strings.Lines(w.at[on].Run("cat /proc/net/snmp")) {
		f := strings.Fields(line)
		if f[0] == "Ip:" && f[1] != "Forwarding" {
			n, err := strconv.Atoi(f[14]) // ReasmReqds
			if err != nil {
				w.t.Fatal(err)
			}
			return n
		}
	}
	w.t.Fatalf("%s counts no fragments", on)
	return 0
}

// Somebody has unmounted the BPF file system, or mounted something over it: new programs would know nothing of the jobs
// that run, and leave what comes for these to whoever listens on the node.
func TestProgramsWhosePinsAreGoneAreNotReplacedWhileAJobNeedsThem(t *testing.T) {
	w := twoJobs(t)
	w.serve("j-1", "j", "", aPort)
	w.serve("n1", "n1", "", aPort)
	root := filepath.Dir(filepath.Dir(w.nodes["n1"].Pins))
	if err := unix.Mount("bpf", root, "bpf", 0, "mode=700"); err != nil {
		t.Fatal(err)
	}
	s := w.settings("n1")
	err := w.at["n1"].Do(func() error { return w.nodes["n1"].Attach(s) })
	if err == nil || !strings.Contains(err.Error(), "their pins are gone") {
		t.Errorf("another job begins: %v", err)
	}
	w.wants("the job has its port still", "h", fmt.Sprintf("192.0.2.1:%d", aPort), "j 192.0.2.99")
	if err := unix.Unmount(root, 0); err != nil {
		t.Fatal(err)
	}
	w.share("n1")
}

func TestProgramsAreNotPinnedWhereTheyWouldNotStay(t *testing.T) {
	w := newWorld(t)
	s := w.settings("n1")
	users := pins(t)
	if err := os.Chmod(filepath.Dir(filepath.Dir(users.Pins)), 0o777); err != nil {
		t.Fatal(err)
	}
	for want, n := range map[string]ports.Node{
		"is no BPF file system":                  {Pins: filepath.Join(t.TempDir(), "gresnet", "ports")},
		"others than root may rename what is in": users,
	} {
		err := w.at["n1"].Do(func() error { return n.Attach(s) })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
		if _, err := os.Lstat(filepath.Dir(n.Pins)); !os.IsNotExist(err) {
			t.Errorf("it left a folder: %v", err)
		}
	}
}
