package managers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// ofTwo is a job of two nodes.
const ofTwo = "SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0,1 SLURM_NODELIST=node[1-2] "

// neighbor makes a namespace in place of node2, at the other end of eth0, with a host beside it, and one with the
// job's end of the overlay there.
const neighbor = `
ip link del eth0
ip netns add node2
ip netns add job2
ip link add eth0 type veth peer name eth0 netns node2
ip addr add 192.0.2.1/24 dev eth0
ip link set eth0 up
ip -n node2 link set lo up
ip -n node2 addr add 192.0.2.2/24 dev eth0
ip -n node2 addr add 192.0.2.3/24 dev eth0
ip -n node2 link set eth0 up
ip route add default via 192.0.2.2
ip -n node2 link add job type vxlan id 900070 local 192.0.2.2 dstport 489 srcport 600 1000 nolearning
ip -n node2 link set job netns job2
ip -n job2 link set job address 0e:67:c0:00:02:02
ip -n job2 addr add 192.0.2.2/24 dev job noprefixroute
ip -n job2 link set job up
ip -n job2 route add 192.0.2.1 dev job
ip -n job2 neigh replace 192.0.2.1 lladdr 0e:67:c0:00:02:01 dev job nud permanent
bridge -n job2 fdb append 0e:67:c0:00:02:01 dev job dst 192.0.2.1
`

const noNeighbor = `
for n in node2 job2; do ip netns pids $n | xargs -r kill; ip netns del $n; done
ip link del eth0 2>/dev/null || true
ip link add eth0 type dummy
ip addr add 192.0.2.1/24 dev eth0
ip link set eth0 up
ip route add default via 192.0.2.254
`

const elsewhere = 7777

// ways are what a firewall may close, with what check says of that. It cannot say it of what only another node
// can send.
var ways = []struct {
	name    string
	is      func() bool
	warning string
}{
	{"slurmd", func() bool { return reaches("192.0.2.1", slurmd) }, "the node drops what jobs send to slurmd of their own node"},
	{"out", func() bool { return reaches("192.0.2.3", elsewhere) }, "the node drops what jobs send out by eth0"},
	{"peer", func() bool { return reaches("192.0.2.2", elsewhere) }, "the node drops what a job's other nodes send by the overlay"},
	{"called", isCalled, ""},
}

// isCalled tells whether another node reaches a port of the job's at the node's address, as slurmctld reaches srun.
func isCalled() bool {
	_, err := vm.Try(fmt.Sprintf(`nsenter --net=%s python3 -c '
import socket, subprocess, sys
port = int(open("/proc/sys/net/ipv4/ip_local_port_range").read().split()[0])
s = socket.create_server(("0.0.0.0", port))
sys.exit(subprocess.call(["nsenter", "--net=/run/netns/node2", "timeout", "%.0f", "bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/%%d" %% port]))'`,
		netns, vm.Slow(3*time.Second).Seconds()))
	return err == nil
}

// firewall is one as a site has it.
type firewall struct {
	name   string
	start  string
	shuts  []string // ways
	accept string   // what check and docs say
	again  string   // what an administrator does to it while a job runs
	stop   string
}

// What the VM writes is on an overlay, on which Docker can have no other.
const startDocker = `mkdir -p /etc/docker; echo '{"storage-driver": "vfs"}' >/etc/docker/daemon.json; systemctl start docker`

const noDocker = "systemctl stop docker docker.socket containerd; ip link del docker0; iptables -P FORWARD ACCEPT; iptables -F; iptables -X; iptables -t nat -F; iptables -t nat -X; sysctl -qw net.ipv4.ip_forward=0; "

var firewalls = []firewall{
	{
		name:   "firewalld",
		start:  "systemctl start firewalld; until firewall-cmd -q --state; do sleep 0.2; done",
		shuts:  []string{"slurmd", "peer"},
		accept: "firewall-cmd -q --permanent --add-port=6818/tcp; firewall-cmd -q --permanent --add-port=489/udp; firewall-cmd -q --reload",
		again:  "firewall-cmd -q --complete-reload; systemctl restart firewalld; until firewall-cmd -q --state; do sleep 0.2; done",
		stop:   "systemctl stop firewalld; rm -rf /etc/firewalld/zones/*",
	},
	{
		name: "nftables",
		start: `cat >/etc/nftables.conf <<T
table inet site
delete table inet site
table inet site {
	set cluster { type ipv4_addr; flags interval; elements = { 127.0.0.0/8, 192.0.2.0/24 } }
	chain input { type filter hook input priority 0; policy drop; ct state vmap { established : accept, related : accept, invalid : drop }; iif lo accept; tcp dport 22 accept; ip saddr @cluster tcp dport { 6817, 6818 } accept; }
	chain forward { type filter hook forward priority 0; policy drop; ct state { established, related } accept; }
}
T
systemctl start nftables`,
		shuts: []string{"peer"},
		accept: `sed -i 's/iif lo accept;/& udp sport 600-1000 udp dport 489 accept;/' /etc/nftables.conf
systemctl reload nftables`,
		again: "systemctl reload nftables",
		stop:  "nft delete table inet site; systemctl reset-failed nftables || true",
	},
	{
		name:   "Docker",
		start:  startDocker,
		accept: "true",
		again:  "systemctl restart docker",
		stop:   noDocker + "nft delete table ip filter; nft delete table ip nat",
	},
	{
		name:   "Docker by iptables-legacy",
		start:  "update-alternatives --quiet --set iptables /usr/sbin/iptables-legacy; " + startDocker,
		accept: "true",
		again:  "systemctl restart docker",
		stop:   noDocker + "update-alternatives --quiet --auto iptables",
	},
	{
		name: "iptables-legacy",
		start: `I() { iptables-legacy "$@"; }; I -P INPUT DROP; I -P FORWARD DROP; I -A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT; I -A INPUT -i lo -j ACCEPT
I -A INPUT -p tcp --dport 22 -j ACCEPT; I -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
		shuts:  []string{"slurmd", "peer"},
		accept: `I() { iptables-legacy "$@"; }; I -A INPUT -p tcp --dport 6818 -j ACCEPT; I -A INPUT -p udp --sport 600:1000 --dport 489 -j ACCEPT`,
		again:  "iptables-legacy-save >/tmp/rules; iptables-legacy-restore </tmp/rules",
		stop:   "iptables-legacy -P INPUT ACCEPT; iptables-legacy -P FORWARD ACCEPT; iptables-legacy -F",
	},
}

// names fails the test unless check names these ways as shut, and no others.
func (f firewall) names(t *testing.T, when string, shut []string) {
	t.Helper()
	said, _ := vm.Command(t, "gresnet check")
	for _, w := range ways {
		if w.warning != "" && strings.Contains(said, w.warning) != slices.Contains(shut, w.name) {
			t.Errorf("%s, %s: check should name %v:\n%s\n%s", f.name, when, shut, said, rules())
		}
	}
}

// lets fails the test unless these ways of a job are shut, and all others open.
func (f firewall) lets(t *testing.T, when string, shut []string) {
	t.Helper()
	for _, w := range ways {
		if w.is() == slices.Contains(shut, w.name) {
			t.Errorf("%s, %s: %s should be shut, and is not, or the other way round: %v\n%s", f.name, when, w.name, shut, rules())
		}
	}
}

func rules() string {
	all, _ := vm.Try("nft list ruleset; iptables-legacy -S")
	return all
}

func TestAFirewallLetsJobsThroughOnceItDoesWhatCheckSays(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.Managed)
	site(t)
	vm.Run(t, neighbor)
	t.Cleanup(func() { vm.Run(t, noNeighbor) })
	listen(t, "ip netns exec node2", elsewhere)
	listen(t, "ip netns exec job2", elsewhere)
	none := firewall{name: "no firewall"}
	none.names(t, "before a job", nil)
	vm.Must(t, "prolog", ofTwo)
	none.lets(t, "in a job", nil)
	vm.Must(t, "epilog", ofTwo)
	for _, f := range firewalls {
		t.Run(f.name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					said, _ := vm.Try("journalctl --no-pager -q -n 60 -o cat")
					t.Log(said)
				}
				if out, err := vm.Try(f.stop); err != nil && !t.Failed() {
					t.Errorf("%s: %v\n%s", f.stop, err, out)
				}
				vm.Run(t, "[ ! -e /run/gresnet/jobs/900070 ] || { "+vm.SlurmdEnv+ofTwo+vm.Repo()+"/bin/gresnet-epilog; }")
			})
			vm.Run(t, f.start)
			settled(t)
			f.names(t, "as it was installed", f.shuts)
			vm.Must(t, "prolog", ofTwo)
			f.lets(t, "as it was installed", f.shuts)
			vm.Run(t, f.accept)
			f.names(t, "after "+f.accept, nil)
			f.lets(t, "after "+f.accept, nil)
			vm.Run(t, f.again)
			settled(t)
			f.lets(t, "after "+f.again, nil)
			vm.Must(t, "epilog", ofTwo)
			before := vm.Picture(t)
			vm.Must(t, "prolog", ofTwo)
			f.lets(t, "in a later job", nil)
			vm.Must(t, "epilog", ofTwo)
			vm.Same(t, before)
		})
	}
}
