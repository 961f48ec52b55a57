package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const groupJob = "SLURM_JOB_ID=900063 SLURM_JOB_GPUS=1"

// roceParent returns the interface of the HCA of GPU 1.
func roceParent(t *testing.T) string {
	t.Helper()
	vm.AnHCAOfEachKind(t)
	names := strings.Fields(vm.Run(t, "ls /sys/class/net | grep ^roce"))
	return names[len(names)-1]
}

// The kernel joins it with the first VLAN of an interface, and forgets it when that moves.
func TestTheGroupOfVLANRegistrationIsReturned(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	parent := roceParent(t)
	vm.Run(t, "ip link add link "+parent+" name v9 type vlan id 9 gvrp on; ip link set v9 up")
	t.Cleanup(func() { vm.Run(t, "ip link del v9") })
	joined := func() bool {
		return strings.Contains(vm.Run(t, "bridge fdb show dev "+parent), "01:80:c2:00:00:21")
	}
	if !joined() {
		t.Fatal("the kernel has not joined the group")
	}
	before := vm.Picture(t)
	for range 2 {
		vm.Must(t, "prolog", groupJob)
		vm.Must(t, "epilog", groupJob)
		if !joined() {
			t.Error("the interface is not a member of the group any more")
		}
	}
	vm.Same(t, before)
}

func TestNextHopsWithLabelsAreReturned(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	parent := roceParent(t)
	vm.Run(t, "modprobe mpls_iptunnel; ip nexthop add id 81 encap mpls 300/400 via 10.251.0.1 dev "+parent+` onlink
ip route add 172.28.0.0/16 nhid 81
ip route add 172.29.0.0/16 encap mpls 100/200 ttl 9 via 10.251.0.1 dev `+parent+" onlink")
	t.Cleanup(func() { vm.Run(t, "ip route del 172.28.0.0/16; ip route del 172.29.0.0/16; ip nexthop del id 81") })
	before, nexthop := vm.Picture(t), vm.Run(t, "ip -d nexthop show id 81; ip -d route show root 172.28.0.0/15")
	vm.Must(t, "prolog", groupJob)
	vm.Must(t, "epilog", groupJob)
	if now := vm.Run(t, "ip -d nexthop show id 81; ip -d route show root 172.28.0.0/15"); now != nexthop {
		t.Errorf("it is\n%s\nand was\n%s", now, nexthop)
	}
	vm.Same(t, before)
}
