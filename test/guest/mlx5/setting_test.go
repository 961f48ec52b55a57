package mlx5

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

// settings are what this driver has and a stub has not. NET stands for the interface, RDMA for the HCA.
var settings = []string{
	"ethtool -L NET combined 1",
	"ethtool -G NET rx 512 tx 256",
	"ethtool -C NET adaptive-rx off rx-usecs 33 rx-frames 17",
	"ethtool -K NET gro off tso off rxvlan off ntuple on hw-tc-offload on",
	"ethtool --set-priv-flags NET rx_cqe_moder off",
	"ethtool -A NET rx off tx on",
	"ethtool -X NET hfunc xor",
	"ethtool -N NET flow-type udp4 dst-port 4000 action 0",
	"ethtool -N NET flow-type ether dst 02:00:00:00:00:77 action -1",
	"ethtool -s NET speed 100000 duplex full autoneg off",
	"dcb ets set dev NET tc-tsa all:ets tc-bw 0:20 1:20 2:20 3:20 4:20 5:0 6:0 7:0",
	"dcb ets set dev NET prio-tc 0:1 1:0 2:2 3:3 4:4 5:5 6:6 7:7",
	"dcb pfc set dev NET prio-pfc all:off 3:on",
	"dcb buffer set dev NET prio-buffer all:0 3:1",
	"dcb maxrate set dev NET tc-maxrate 1:1Gbit",
	"dcb app add dev NET dscp-prio 26:3 46:5",
	"echo 3 >/sys/class/net/NET/queues/rx-0/rps_cpus",
	"echo 2 >/sys/class/net/NET/queues/tx-0/xps_cpus",
	"echo 20000 >/sys/class/net/NET/gro_flush_timeout",
	"rdma dev set RDMA adaptive-moderation off",
	"echo 77 >/sys/class/infiniband/RDMA/ports/1/hw_counters/lifespan",
	"mkdir /sys/kernel/config/rdma_cm/RDMA; cd /sys/kernel/config/rdma_cm/RDMA/ports/1; echo IB/RoCE v1 >default_roce_mode; echo 96 >default_roce_tos",
}

// steering is what needs the driver's two channels, and what lies beside the interface: time stamps, devlink's parameters
// and reporters, interrupts.
var steering = []string{
	"ethtool -K NET ntuple on rx-gro-list on rx-udp-gro-forwarding on tx-udp-segmentation off rx-vlan-filter off",
	"ethtool -X NET weight 1 3",
	"ethtool -X NET hkey $(seq -s: -f%02g 11 50)",
	"ethtool -X NET equal 1 context new",
	"ethtool -N NET flow-type tcp4 dst-port 5000 context 1",
	"ethtool -N NET flow-type ip6 dst-ip 2001:db8::1 action 1 loc 900",
	"ethtool -N NET rx-flow-hash tcp4 sd",
	"ethtool -C NET adaptive-tx off tx-usecs 44 tx-frames 22",
	"ethtool --set-priv-flags NET rx_no_csum_complete on",
	"echo 3 >/sys/class/net/NET/napi_defer_hard_irqs",
	"echo 1 >/sys/class/net/NET/threaded",
	"echo 2 >/sys/class/net/NET/queues/tx-1/xps_rxqs",
	"echo 64 >/sys/class/net/NET/queues/rx-1/rps_flow_cnt",
	"for i in $(ls /sys/class/net/NET/device/msi_irqs); do echo 2 >/proc/irq/$i/smp_affinity; done",
	"devlink dev param set pci/PCI name io_eq_size value 128 cmode driverinit",
	"devlink dev param set pci/PCI name enable_remote_dev_reset value false cmode runtime",
	"devlink health set pci/PCI reporter fw_fatal grace_period 5000",
	"devlink health set PORT reporter tx grace_period 700",
	"python3 -c " + vm.Quote(stamps) + " NET 0x89b0",
}

// stamps sets which packets get time stamps (SIOCSHWTSTAMP), or prints it (SIOCGHWTSTAMP).
const stamps = `
import array, fcntl, socket, struct, sys
config = array.array("i", [0, 1, 1])  # sent ones, and all that come
fcntl.ioctl(socket.socket(), int(sys.argv[2], 16), struct.pack("16sP16x", sys.argv[1].encode(), config.buffer_info()[0]))
print("time stamps", *config)`

// look prints all that the driver says of them.
const look = `for o in -l -g -c -k -a -x -n --show-priv-flags ''; do echo "ethtool $o"; ethtool $o NET; done
for o in ets pfc buffer maxrate app; do echo "dcb $o"; dcb $o show dev NET; done
grep . /sys/class/net/NET/queues/*/*ps_cpus /sys/class/net/NET/gro_flush_timeout /sys/class/infiniband/RDMA/ports/1/hw_counters/lifespan
rdma -d dev show RDMA | grep -o "adaptive-moderation .*" || true
grep -rs . /sys/kernel/config/rdma_cm/RDMA || true
`

var lookFurther = look + `ethtool -x NET context 1 || true
ethtool -n NET rx-flow-hash tcp4
python3 -c ` + vm.Quote(stamps) + ` NET 0x89b1
grep . /sys/class/net/NET/{napi_defer_hard_irqs,threaded,queues/tx-1/xps_rxqs,queues/rx-1/rps_flow_cnt}
for i in $(ls /sys/class/net/NET/device/msi_irqs); do grep -H . /proc/irq/$i/smp_affinity; done
for p in io_eq_size enable_remote_dev_reset enable_roce; do devlink dev param show pci/PCI name $p; done
devlink health show pci/PCI reporter fw_fatal; devlink health show PORT reporter tx
`

func TestWhatTheDriverKeepsOfAnInterfaceIsThereAfterAJob(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke, vm.MLX5)
	keeps(t, settings, look, "rmdir /sys/kernel/config/rdma_cm/RDMA")
}

func TestTheDriversSteeringStampsAndParametersAreThereAfterAJob(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.MLX5)
	keeps(t, steering, lookFurther, "devlink dev param set pci/PCI name io_eq_size value 1024 cmode driverinit; devlink dev param set pci/PCI name enable_remote_dev_reset value true cmode runtime; devlink health set pci/PCI reporter fw_fatal grace_period 60000")
}

// keeps sets the first HCA's settings and holds them to be the same after a job. Then it undoes what outlives the driver.
func keeps(t *testing.T, settings []string, look, undo string) {
	t.Helper()
	h := begin(t)[0]
	port := strings.TrimSpace(vm.Run(t, "devlink port | grep -w "+h.net+" | cut -d' ' -f1 | sed 's/:$//'"))
	of := func(command string) string {
		return vm.Run(t, "set +o pipefail\n"+strings.NewReplacer("NET", h.net, "RDMA", h.name, "PCI", h.pci, "PORT", port).Replace(command))
	}
	bare := of(look)
	for _, s := range settings {
		of(s)
	}
	carrier(t, h)
	before := of(look)
	if lines := len(netnstest.Diff(bare, before)); lines < 20 {
		t.Fatalf("little was set:\n%s", netnstest.Diff(bare, before))
	}
	vm.Must(t, "prolog", first)
	vm.Must(t, "epilog", first)
	carrier(t, h)
	if diff := netnstest.Diff(before, of(look)); diff != "" {
		t.Errorf("before (-) and after (+) a job:\n%s", diff)
	}
	// Nothing takes some of them away; a driver that begins again has none.
	of(undo + "; devlink dev reload pci/" + h.pci)
	again(t, h)
	vm.Run(t, vm.GiveAddresses+vm.Repo()+"/bin/gresnet close")
}
