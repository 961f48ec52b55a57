package ports_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/ports"
	"gresnet/test/netnstest"
)

// Each of these makes the interface that has a node's address, in place of eth0, which is its way to the network.
var kinds = map[string]string{
	"bond":   "ip link add X type bond mode active-backup; ip link set eth0 down; ip link set eth0 master X",
	"bridge": "ip link add X type bridge; ip link set eth0 master X",
	"vlan":   "ip link add X link eth0 type vlan id 5",
	// A packet from here has a header of 24 bytes, as one from InfiniBand.
	"gre": "ip addr add 10.9.0.N/24 dev eth0; ip link add X type gre local 10.9.0.N; ip link set X up; " +
		"for n in 1 2 99 254; do ip neigh add 192.0.2.$n lladdr 10.9.0.$n dev X nud permanent; done",
	// And one from here none.
	"ipip": "ip addr add 10.9.0.N/24 dev eth0; ip link add X type ipip local 10.9.0.N remote 10.9.0.M",
	"tun":  "",
}

// number returns the last number of a host's address.
func number(name string) string {
	return addresses[name][strings.LastIndex(addresses[name], ".")+1:]
}

func TestAJobsWayOutLeadsByEachKindOfInterface(t *testing.T) {
	ports.SetHeader("gre", 24)
	for kind, lines := range kinds {
		t.Run(kind, func(t *testing.T) {
			if _, err := os.Stat("/dev/net/tun"); kind == "tun" && err != nil {
				t.Skip("the kernel has no tun")
			}
			w := newWorld(t)
			if kind == "tun" {
				w.tunnel("n1", "h")
			}
			for name, other := range map[string]string{"n1": "h", "h": "n1"} {
				if lines == "" {
					break
				}
				set := strings.NewReplacer("X", "up0", "N", number(name), "M", number(other)).Replace(lines)
				out, err := try(w.at[name], "ip addr flush dev eth0; "+set)
				if strings.Contains(out, "Unknown device type") || strings.Contains(out, "not supported") {
					t.Skipf("the kernel has no %s", kind)
				}
				if err != nil {
					t.Fatalf("%s: %v: %s", set, err, out)
				}
				w.at[name].IP(fmt.Sprintf("addr add %s/24 dev up0; ip link set up0 up", addresses[name]))
				w.mtu[name], _ = strconv.Atoi(strings.TrimSpace(w.at[name].Run("cat /sys/class/net/up0/mtu")))
			}
			w.share("n1")
			w.end("j", 1, firstUser, firstBlock, "n1", []string{"n1"}, false)
			w.serve("j", "j", "", aPort)
			w.serve("h", "h", "", 53)
			w.serve("n1", "n1", "", 22)
			w.wants("out", "j", "192.0.2.99:53", "h 192.0.2.1")
			w.wants("in", "h", fmt.Sprintf("192.0.2.1:%d", aPort), "j 192.0.2.99")
			w.wants("to its node", "j", "192.0.2.1:22", "n1 192.0.2.1")
			w.wantsBy("tcp", "from its node", "n1", fmt.Sprintf("192.0.2.1:%d", aPort), "j 198.19.0.1")
			w.wantsBy("udp", "in, by the node's second address", "st", fmt.Sprintf("198.51.100.1:%d", aPort), "j 198.51.100.50")
			w.wantsBy("udp", "nobody there", "j", "192.0.2.99:9999", refused)
			w.wantsBy("udp", "in fragments", "j", "192.0.2.99:53", "h 192.0.2.1 (4000 bytes)", sized(4000))
			w.drops("udp", "who sends from the job's port", "n1", "192.0.2.99:53", "n1", shadow, fromPort(16602))
		})
	}
}

func TestContainersOfTheNodeKeepTheirNetworkBesideJobs(t *testing.T) {
	needs(t, "nftables")
	w := newWorld(t)
	w.share("n1")
	w.end("j", 1, firstUser, firstBlock, "n1", []string{"n1"}, false)
	c := netnstest.New(t)
	w.at["c"] = c
	// As docker does it: a bridge, masquerade, a published port, and FORWARD that drops all others.
	w.at["n1"].Run(`ip link add docker0 up type bridge; ip addr add 172.17.0.1/16 dev docker0; sysctl -qw net.ipv4.ip_forward=1
		ip link add v type veth peer name eth0 netns ` + c.Path + `; ip link set v master docker0 up
		nft 'table ip docker { chain o { type nat hook postrouting priority 100; ip saddr 172.17.0.0/16 oifname != docker0 masquerade; };
			chain i { type nat hook prerouting priority -100; fib daddr type local tcp dport 8000 dnat to 172.17.0.2:80; };
			chain f { type filter hook forward priority 0; policy drop; ct state established,related accept; iifname docker0 accept; oifname docker0 accept; }; }'`)
	c.Run("ip addr add 172.17.0.2/16 dev eth0; ip link set eth0 up; ip route add default via 172.17.0.1")
	w.serve("c", "c", "", 80)
	w.serve("h", "h", "", 53)
	w.serve("j", "j", "", aPort)
	w.wants("a container's way out", "c", "192.0.2.99:53", "h 192.0.2.1")
	w.wantsBy("tcp", "a container's port that the node publishes", "h", "192.0.2.1:8000", "c 192.0.2.99")
	w.wants("a job's way out", "j", "192.0.2.99:53", "h 192.0.2.1")
	w.wantsBy("tcp", "a job's block", "h", fmt.Sprintf("192.0.2.1:%d", aPort), "j 192.0.2.99")
	w.drops("udp", "a container from a job's port", "c", "192.0.2.99:53", "n1", shadow, fromPort(16602))
	w.drops("tcp", "a job calls a container", "j", "172.17.0.2:80", "n1", target)
	w.wants("a container calls a job", "c", fmt.Sprintf("192.0.2.1:%d", aPort), refused)
}

func TestAContainerWithAnAddressOfItsOwnKeepsAllPortsOfIt(t *testing.T) {
	w := newWorld(t)
	w.share("n1")
	w.end("j", 1, firstUser, firstBlock, "n1", []string{"n1"}, false)
	c := netnstest.New(t)
	w.at["c"] = c
	w.at["n1"].IP("link add link eth0 name c0 netns " + c.Path + " type macvlan mode bridge")
	c.Run("ip addr add 192.0.2.77/24 dev c0; ip link set c0 up")
	w.serve("c", "c", "", aPort)
	w.serve("h", "h", "", 53)
	w.wants("out, from a job's port", "c", "192.0.2.99:53", "h 192.0.2.77", fromPort(16602))
	w.wants("in, at a job's port", "h", fmt.Sprintf("192.0.2.77:%d", aPort), "c 192.0.2.99")
}

// try runs a command that may fail.
func try(ns *netnstest.NS, command string) (string, error) {
	out, err := exec.Command("nsenter", "--net="+ns.Path, "sh", "-ec", command).CombinedOutput()
	return string(out), err
}

// tunnel connects two hosts by interfaces whose packets have no header, and takes their addresses there.
func (w *world) tunnel(a, b string) {
	w.t.Helper()
	ends := [2]*os.File{w.tun(a), w.tun(b)}
	for n := range ends {
		go func() {
			packet := make([]byte, 1<<16)
			for {
				length, err := ends[n].Read(packet)
				if err != nil {
					return
				}
				_, _ = ends[1-n].Write(packet[:length])
			}
		}()
	}
}

func (w *world) tun(name string) (end *os.File) {
	w.t.Helper()
	w.do(name, func() error {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		r, err := unix.NewIfreq("up0")
		if err != nil {
			return err
		}
		r.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
			return err
		}
		end = os.NewFile(uintptr(fd), "tun")
		return nil
	})
	w.t.Cleanup(func() { end.Close() })
	w.at[name].Run(fmt.Sprintf("ip addr flush dev eth0; ip addr add %s/24 dev up0; ip link set up0 up", addresses[name]))
	return end
}
