package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const vrfJob = "SLURM_JOB_ID=900160 SLURM_JOB_GPUS=1"

func TestAChildThatBelongsToAVRFIsReturnedAsItWas(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	names := strings.Fields(vm.Run(t, "ls /sys/class/net | grep ^roce"))
	parent := names[len(names)-1]
	vm.Run(t, "modprobe vrf; ip link add vrf9 type vrf table 900; ip link set vrf9 up")
	t.Cleanup(func() { vm.Run(t, "ip link del vrf9") })
	for name, kind := range map[string]string{
		"a VLAN":    "vlan id 9",
		"a macvlan": "macvlan mode bridge",
		"an ipvlan": "ipvlan mode l2",
	} {
		t.Run(name, func(t *testing.T) {
			vm.Run(t, "ip link add link "+parent+" name v9 type "+kind+`
sysctl -qw net.ipv6.conf.v9.keep_addr_on_down=0
ip link set v9 master vrf9
ip link set v9 up
ip addr add 10.99.0.2/24 dev v9
ip -6 addr add fd99::2/64 dev v9 nodad
ip route add 172.16.99.0/24 via 10.99.0.1 vrf vrf9
ip -6 route add fd9a::/64 via fd99::1 vrf vrf9
while ip -6 addr | grep -q tentative; do sleep 0.1; done`)
			defer vm.Run(t, "ip link del v9")
			before := vm.Picture(t)
			vm.Must(t, "prolog", vrfJob)
			vm.Must(t, "epilog", vrfJob)
			vm.Same(t, before)
		})
	}
}
