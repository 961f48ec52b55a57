package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// theirs returns the interfaces of the HCAs that vm.InvariantJob has, InfiniBand and RoCE.
func theirs(t *testing.T) (ib, roce string) {
	t.Helper()
	vm.AnHCAOfEachKind(t)
	names := vm.HCAs(t)
	return linkOf(t, names[0]), linkOf(t, names[len(names)-1])
}

// there and back holds the node to what it was.
func thereAndBack(t *testing.T, inJob func()) {
	t.Helper()
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.InvariantJob)
	if inJob != nil {
		inJob()
	}
	vm.Must(t, "epilog", vm.InvariantJob)
	vm.Same(t, before)
}

const inInvariantJob = "nsenter --net=/run/gresnet/jobs/900030/netns "

// The modules of this are for nodes that need them, so the unit tests' kernel lacks some.
func TestTrafficControlAndMPLSThatCannotBeReturnedAreRefused(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	_, roce := theirs(t)
	number := strings.Split(strings.Fields(vm.Run(t, "ip -4 -br addr show dev "+roce))[2], ".")[1]
	fill := strings.NewReplacer("NUMBER", number, "ROCE", roce).Replace
	vm.Run(t, "modprobe mpls_router; sysctl -qw net.mpls.platform_labels=1000; ip link add m0 type dummy; ip link set m0 up")
	t.Cleanup(func() { vm.Run(t, "sysctl -qw net.mpls.platform_labels=0; modprobe -r mpls_router; ip link del m0") })
	for _, c := range []struct{ name, give, take, want string }{
		{"mqprio", "tc qdisc replace dev ROCE root handle 8: mqprio num_tc 2 map 0 0 0 1 0 1 0 0 0 0 0 0 0 0 0 0 queues 1@0 3@1 hw 0", "tc qdisc del dev ROCE root", "ROCE has queueing discipline mqprio"},
		{"a queue's own", "tc qdisc replace dev ROCE root handle 7: mq; tc qdisc replace dev ROCE parent 7:1 handle 71: fq maxrate 1gbit", "tc qdisc del dev ROCE root", "ROCE has queueing discipline fq below its root"},
		{"a filter of another interface", "tc qdisc add dev m0 clsact; tc filter add dev m0 egress matchall action mirred egress redirect dev ROCE index 5", "tc qdisc del dev m0 clsact", "mirred 5 sends packets through ROCE"},
		{"a filter of a shared block", "tc qdisc add dev m0 ingress_block 7 clsact; tc filter add block 7 protocol ip flower dst_ip 10.77.0.1 action mirred egress mirror dev ROCE index 6", "tc qdisc del dev m0 clsact", "mirred 6 sends packets through ROCE"},
		{"MPLS's input", "sysctl -qw net.mpls.conf.ROCE.input=1", "sysctl -qw net.mpls.conf.ROCE.input=0", "ROCE is used for MPLS"},
		{"a route of labels", "ip -f mpls route add 100 as 200/201 via inet 10.NUMBER.0.9 dev ROCE", "ip -f mpls route del 100", "ROCE is used for MPLS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm.Run(t, fill(c.give))
			t.Cleanup(func() { vm.Run(t, fill(c.take)) })
			before := vm.Picture(t)
			out, code := vm.ByHand(t, "prolog", vm.InvariantJob)
			if code == 0 || !strings.Contains(out, fill(c.want)) {
				t.Errorf("prolog: exit %d: %s", code, out)
			}
			vm.Same(t, before)
		})
	}
	// What the kernel chose for the queues comes back.
	vm.Run(t, fill("tc qdisc replace dev ROCE root handle a: mq"))
	t.Cleanup(func() { vm.Run(t, fill("tc qdisc del dev ROCE root")) })
	thereAndBack(t, func() { vm.Run(t, fill(inInvariantJob+"tc qdisc replace dev ROCE root pfifo")) })
}

func TestAnInterfaceThatNftablesNamesIsRefused(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Run(t, "modprobe -r nf_flow_table nf_tables 2>/dev/null || true")
	ib, roce := theirs(t)
	vm.Must(t, "prolog", vm.InvariantJob)
	vm.Must(t, "epilog", vm.InvariantJob)
	if loaded := vm.Run(t, "ls /sys/module | grep -x nf_tables || true"); loaded != "" {
		t.Error("the question loaded nftables")
	}
	fill := strings.NewReplacer("ROCE", roce, "IB", ib).Replace
	for _, c := range []struct{ table, rest, want string }{
		{"netdev guard", "chain in {\ntype filter hook ingress device ROCE priority 0;\n}", "ROCE is in chain in of the nftables table guard"},
		{"netdev guard", "chain in {\ntype filter hook ingress devices = { eth0, IB } priority 0;\n}", "IB is in chain in of the nftables table guard"},
		{"inet fast", "chain in {\ntype filter hook ingress device ROCE priority 0;\n}", "ROCE is in chain in of the nftables table fast"},
		{"inet fast", "flowtable ft {\nhook ingress priority 0;\ndevices = { eth0, ROCE };\n}", "ROCE is in flowtable ft of the nftables table fast"},
	} {
		t.Run(c.rest, func(t *testing.T) {
			vm.Run(t, fill("nft -f - <<T\ntable "+c.table+" {\n"+c.rest+"\n}\nT"))
			t.Cleanup(func() { vm.Run(t, "nft delete table "+c.table) })
			before := vm.Picture(t)
			if !strings.Contains(before, "nft ") {
				t.Error("the picture has no nftables")
			}
			out, code := vm.ByHand(t, "prolog", vm.InvariantJob)
			if code == 0 || !strings.Contains(out, fill(c.want)) {
				t.Errorf("prolog: exit %d: %s", code, out)
			}
			vm.Same(t, before)
		})
	}
	// Chains of others, and those that name interfaces in rules alone, are nobody's affair.
	vm.Run(t, fill("nft -f - <<T\ntable netdev guard {\nchain in {\ntype filter hook ingress device eth0 priority 0;\n}\n}\ntable inet rules {\nchain in {\ntype filter hook input priority 0;\niifname ROCE accept\niif IB accept\n}\n}\nT"))
	t.Cleanup(func() { vm.Run(t, "nft delete table netdev guard; nft delete table inet rules") })
	vm.Must(t, "prolog", vm.InvariantJob)
	vm.Must(t, "epilog", vm.InvariantJob)
}
