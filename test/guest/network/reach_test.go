package network

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// beyond gives the node two networks that jobs are not to reach: one of the node's own,
// and one behind it. The node forwards, and answers ARP for what it would forward.
const beyond = `
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.proxy_arp=1
ip link add stor0 type dummy
ip link set stor0 up
ip addr add 198.51.100.1/24 dev stor0
ip addr add fd00:51::1/64 dev stor0 nodad
ip netns add far
ip link add far0 type veth peer name far1 netns far
ip link set far0 up
ip addr add 203.0.113.1/24 dev far0
ip -n far link set far1 up
ip -n far link set lo up
ip -n far addr add 203.0.113.2/24 dev far1
ip -n far route add default via 203.0.113.1
for in in "" "ip netns exec far"; do
	$in setsid python3 -c '
import socket
s = socket.create_server(("::", 7777), family=socket.AF_INET6, dualstack_ipv6=True)
while True: s.accept()' </dev/null >/dev/null 2>&1 &
	echo $!
done
while [ $(ss -Hltn sport = :7777 | wc -l) != 1 ] || [ $(ip netns exec far ss -Hltn sport = :7777 | wc -l) != 1 ]; do sleep 0.1; done
`

const notBeyond = `
ip link del stor0
ip netns del far
ip link del far0 2>/dev/null || true
sysctl -qw net.ipv4.conf.all.proxy_arp=0 net.ipv6.conf.all.forwarding=0 net.ipv4.ip_forward=0
`

// reach says which addresses a program reaches whose sockets are bound to the uplink.
const reach = `import errno, socket, sys
for address in sys.argv[2:]:
	s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
	s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"uplink0")
	s.settimeout(float(sys.argv[1]))
	try:
		s.connect((address, 7777))
		print(address, "reached")
	except TimeoutError:
		print(address, "ETIMEDOUT")
	except OSError as e:
		print(address, errno.errorcode[e.errno])
`

func TestASocketThatIsBoundToTheUplinkReachesWhatTheRoutesSayAndNoMore(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	names := vm.HCAsWithGPUs(t)
	servers := strings.Fields(vm.Run(t, beyond))
	t.Cleanup(func() { vm.Run(t, "kill "+strings.Join(servers, " ")+notBeyond) })
	before := vm.Picture(t)
	const job = "SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0"
	gpus := strings.NewReplacer("HCA0", names[0], "HCA1", names[1]).Replace(vm.GPUConfig)
	for _, c := range []struct{ name, routes string }{
		{"no routes", `[]`},
		{"a route to elsewhere", `["192.0.2.128/25"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm.WriteConfig(t, fmt.Sprintf("%s\n[uplink]\nkind = \"veth\"\nparent = \"eth0\"\n%s\nroutes = %s\n", gpus, `addresses = "10.255.0.0/28"`, c.routes))
			vm.Must(t, "prolog", job)
			t.Cleanup(func() { vm.Must(t, "epilog", job); vm.Same(t, before) })
			within := "nsenter --net=/run/gresnet/jobs/900070/netns "
			// As a node may have it, or get it by a file for sysctl.
			vm.Run(t, "sysctl -qw net.ipv6.conf.job900070.disable_ipv6=0; "+within+"sysctl -qw net.ipv6.conf.uplink0.disable_ipv6=0; "+
				within+"ip -6 addr add fd00:51::2/64 dev uplink0 nodad")
			for _, a := range []struct {
				address string
				reached bool
			}{
				{"10.255.0.0", true}, {"192.0.2.1", true},
				{"198.51.100.1", false}, {"203.0.113.1", false}, {"203.0.113.2", false}, {"127.0.0.1", false}, {"fd00:51::1", false},
			} {
				// Who does not answer never will.
				patience := " 4 "
				if a.reached {
					patience = fmt.Sprintf(" %.0f ", vm.Slow(time.Minute).Seconds())
				}
				out := vm.Run(t, "cd /tmp; "+within+"setpriv --reuid alice --regid alice --init-groups python3 -c "+vm.Quote(reach)+patience+a.address)
				if strings.Contains(out, "reached") != a.reached {
					t.Errorf("reached ought to be %t: %s", a.reached, out)
				}
				t.Log(strings.TrimSpace(out))
			}
		})
	}
}
