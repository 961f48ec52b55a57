package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// theirs returns the interfaces of the HCAs that vm.LawJob has, InfiniBand and RoCE.
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
	vm.Must(t, "prolog", vm.LawJob)
	if inJob != nil {
		inJob()
	}
	vm.Must(t, "epilog", vm.LawJob)
	vm.Same(t, before)
}

const inLawJob = "nsenter --net=/run/gresnet/jobs/900030/netns "

func TestQueueingDisciplinesOfQueuesAreTheJobsAndComeHome(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	_, roce := theirs(t)
	queues := "/sys/class/net/" + roce + "/queues/"
	t.Cleanup(func() {
		vm.Run(t, "tc qdisc del dev "+roce+" root; echo 0 >"+queues+"tx-1/xps_cpus; echo 0 >"+queues+"tx-2/xps_rxqs")
	})
	for name, give := range map[string]string{
		"mq":                        "tc qdisc replace dev N root handle 7: mq; tc qdisc replace dev N parent 7:1 handle 71: fq maxrate 1gbit; tc qdisc replace dev N parent 7:3 fq_codel target 4321",
		"mqprio":                    "tc qdisc replace dev N root handle 8: mqprio num_tc 2 map 0 0 0 1 0 1 0 0 0 0 0 0 0 0 0 0 queues 1@0 3@1 hw 0; tc qdisc replace dev N parent 8:2 handle 82: pfifo limit 99",
		"mqprio of hardware":        "tc qdisc replace dev N root handle 9: mqprio num_tc 2 map 1 0 0 1 0 1 0 0 0 0 0 0 0 0 0 0 queues 2@0 2@2 hw 1",
		"mq without other children": "tc qdisc replace dev N root handle a: mq",
	} {
		t.Run(name, func(t *testing.T) {
			vm.Run(t, strings.ReplaceAll("tc qdisc del dev N root 2>/dev/null || true; "+give, "N", roce))
			// The kernel forgets this when it makes or removes traffic classes.
			vm.Run(t, "echo 2 >"+queues+"tx-1/xps_cpus; echo 1 >"+queues+"tx-2/xps_rxqs")
			look := "tc qdisc show dev " + roce + " | sort"
			has := vm.Run(t, look)
			if !strings.Contains(has, "qdisc "+strings.Fields(name)[0]+" ") || strings.Contains(name, "hardware") && strings.Contains(has, "hw:0") {
				t.Fatalf("it has\n%s", has)
			}
			thereAndBack(t, func() {
				if inJob := vm.Run(t, inLawJob+look); inJob != has {
					t.Errorf("in the job it has\n%s\nand had\n%s", inJob, has)
				}
			})
			if is := vm.Run(t, look); is != has {
				t.Errorf("at home it has\n%s\nand had\n%s", is, has)
			}
			thereAndBack(t, func() { vm.Run(t, inLawJob+"tc qdisc replace dev "+roce+" root pfifo") })
		})
	}
}

// The kernel makes what net.core.default_qdisc says then.
func TestTheKernelsOwnQueueingDisciplineIsWhatItWasThoughTheDefaultIsAnother(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	ib, roce := theirs(t)
	const file = "/proc/sys/net/core/default_qdisc"
	was := strings.TrimSpace(vm.Run(t, "cat "+file))
	renew := strings.NewReplacer("ROCE", roce, "IB", ib).Replace("for i in ROCE IB; do tc qdisc replace dev $i root pfifo; tc qdisc del dev $i root; done")
	t.Cleanup(func() { vm.Run(t, "echo "+was+" >"+file+"; "+renew) })
	look := "for i in " + roce + " " + ib + "; do tc qdisc show dev $i | sort; done"
	for _, kinds := range [][2]string{{"fq_codel", "fq"}, {"fq", "pfifo_fast"}} {
		vm.Run(t, "echo "+kinds[0]+" >"+file+"; "+renew+"; echo "+kinds[1]+" >"+file)
		has := vm.Run(t, look)
		if !strings.Contains(has, "qdisc "+kinds[0]+" 0: parent :") {
			t.Fatalf("they have\n%s", has)
		}
		thereAndBack(t, nil)
		if is := vm.Run(t, look); is != has {
			t.Errorf("they have\n%s\nand had\n%s", is, has)
		}
		if is := strings.TrimSpace(vm.Run(t, "cat "+file)); is != kinds[1] {
			t.Errorf("the default is %s, it was %s", is, kinds[1])
		}
	}

	// Who is killed while the default is another leaves it to the next.
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.LawJob)
	out, _ := vm.Traced(t, "epilog", vm.LawJob, "-P "+file+" -e inject=write:signal=KILL:when=2")
	if is := strings.TrimSpace(vm.Run(t, "cat "+file)); is != "fq" {
		t.Errorf("the killed epilog left %s: %s", is, out)
	}
	vm.Must(t, "epilog", vm.LawJob)
	vm.Same(t, before)
	if is := strings.TrimSpace(vm.Run(t, "cat "+file)); is != "pfifo_fast" {
		t.Errorf("the default is %s after the kill, it was pfifo_fast", is)
	}

	// Of an explicit discipline for each queue those that the kernel chose are as they were, too.
	vm.Run(t, strings.ReplaceAll("echo fq_codel >"+file+"; tc qdisc replace dev N root handle 7: mq; tc qdisc replace dev N parent 7:2 handle 72: pfifo; echo fq >"+file, "N", roce))
	thereAndBack(t, nil)
}

// MPLS is of the kernel's modules that a node has who needs it.
func TestWhatMPLSHasOfAnInterfaceComesHome(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	_, roce := theirs(t)
	number := strings.Split(strings.Fields(vm.Run(t, "ip -4 -br addr show dev "+roce))[2], ".")[1]
	run := func(text string) {
		vm.Run(t, strings.NewReplacer("NUMBER", number, "N", roce).Replace(text))
	}
	run("modprobe -a mpls_router mpls_iptunnel; sysctl -qw net.mpls.platform_labels=1000 net.mpls.conf.N.input=1")
	t.Cleanup(func() {
		run("ip route del 172.28.0.0/24; sysctl -qw net.mpls.conf.N.input=0 net.mpls.platform_labels=0; modprobe -r mpls_iptunnel mpls_router")
	})
	run(`ip -f mpls route add 100 as 200/201 via inet 10.NUMBER.0.9 dev N ttl-propagate disabled
ip -f mpls route add 101 via inet6 fd00:NUMBER::9 dev N proto static
ip -f mpls route add 102 nexthop as 300 via inet 10.NUMBER.0.9 dev N nexthop as 301 via inet 192.0.2.9 dev eth0
ip -f mpls route add 103 dev lo
ip route add 172.28.0.0/24 encap mpls 400/401 via 10.NUMBER.0.9 dev N`)
	if has := vm.Run(t, "ip -f mpls route | grep -c "+roce); has != "3\n" {
		t.Fatalf("%s routes of labels go through it", has)
	}
	if before := vm.Picture(t); !strings.Contains(before, "MPLS unicast 102 ") || !strings.Contains(before, "mpls/conf/"+roce+"/input 1") {
		t.Fatalf("the picture has no MPLS:\n%s", before)
	}
	thereAndBack(t, func() {
		if input := vm.Run(t, inLawJob+"sysctl -n net.mpls.conf."+roce+".input"); input != "1\n" {
			t.Errorf("in the job its input is %s", input)
		}
	})
}

func TestOthersTrafficIsSentThroughTheInterfaceAgain(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	ib, roce := theirs(t)
	vm.Run(t, strings.NewReplacer("ROCE", roce, "IB", ib).Replace(`ip link add m0 type dummy; ip link add m1 type dummy; ip link set m0 up; ip link set m1 up
tc qdisc add dev m0 ingress_block 7 clsact; tc qdisc add dev m1 ingress_block 7 clsact
tc filter add block 7 protocol ip flower dst_ip 10.77.0.1 action mirred egress mirror dev ROCE pipe action mirred egress redirect dev m1
tc filter add dev m0 egress matchall action mirred egress redirect dev IB
tc actions add action mirred ingress redirect index 99 dev ROCE`))
	t.Cleanup(func() { vm.Run(t, "ip link del m0; ip link del m1; tc actions flush action mirred") })
	if before := vm.Picture(t); strings.Count(before, "Egress Mirror to device "+roce) == 0 || strings.Count(before, "Egress Redirect to device "+ib) == 0 {
		t.Fatalf("the picture has no actions:\n%s", before)
	}
	thereAndBack(t, nil)

	// What somebody has changed meanwhile stays as he wants it.
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.LawJob)
	vm.Run(t, "tc actions replace action mirred egress redirect index 99 dev m0")
	vm.Must(t, "epilog", vm.LawJob)
	if is := vm.Run(t, "tc actions get action mirred index 99"); !strings.Contains(is, "device m0") {
		t.Errorf("the action is\n%s", is)
	}
	vm.Run(t, "tc actions replace action mirred ingress redirect index 99 dev "+roce)
	vm.Same(t, before)
}

func TestAnInterfaceThatNftablesNamesIsRefused(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Run(t, "modprobe -r nf_flow_table nf_tables 2>/dev/null || true")
	ib, roce := theirs(t)
	vm.Must(t, "prolog", vm.LawJob)
	vm.Must(t, "epilog", vm.LawJob)
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
			out, code := vm.ByHand(t, "prolog", vm.LawJob)
			if code == 0 || !strings.Contains(out, fill(c.want)) {
				t.Errorf("prolog: exit %d: %s", code, out)
			}
			vm.Same(t, before)
		})
	}
	// Chains of others, and those that name interfaces in rules alone, are nobody's affair.
	vm.Run(t, fill("nft -f - <<T\ntable netdev guard {\nchain in {\ntype filter hook ingress device eth0 priority 0;\n}\n}\ntable inet rules {\nchain in {\ntype filter hook input priority 0;\niifname ROCE accept\niif IB accept\n}\n}\nT"))
	t.Cleanup(func() { vm.Run(t, "nft delete table netdev guard; nft delete table inet rules") })
	vm.Must(t, "prolog", vm.LawJob)
	vm.Must(t, "epilog", vm.LawJob)
}
