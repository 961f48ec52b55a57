package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

const refuseJob = "SLURM_JOB_ID=900095 SLURM_JOB_GPUS=0,1"

// listing lists the HCA of an interface, and another one, for a job's two GPUs. more is what
// the first entry says besides.
func listing(t *testing.T, name, more string) {
	t.Helper()
	own := strings.TrimSpace(vm.Run(t, `rdma -j link | jq -r '.[] | select(.netdev == "`+name+`") | .ifname'`))
	other := slices.DeleteFunc(vm.HCAs(t), func(hca string) bool { return hca == own })[0]
	vm.WriteConfig(t, strings.NewReplacer("HCA0\"", own+"\"\n"+more, "HCA1", other).Replace(vm.GPUConfig))
}

// Whether the site lists the HCA is no matter.
func TestAnHCAByWhichSlurmReachesTheNodeIsNoJobs(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	number := strings.Split(strings.Fields(vm.Run(t, "ip -4 -br addr show dev roce0"))[2], ".")[1]
	const own = " SLURM_CONF=/tmp/own/slurm.conf"
	for _, c := range []struct{ name, change, want string }{
		{"NodeAddr", "s/NodeAddr=[^ ]*/NodeAddr=10.N.0.2/", "roce0 has the address of NodeAddr 10.N.0.2"},
		{"the way to slurmctld", "s/^SlurmctldHost=.*/SlurmctldHost=ctl(10.N.0.7)/", "the node reaches SlurmctldHost 10.N.0.7 through roce0"},
		{"NodeAddr by a name", "s/NodeAddr=[^ ]*/NodeAddr=mgmt1.example/", "roce0 has the address of NodeAddr mgmt1.example (10.N.0.2)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := strings.NewReplacer("N.0", number+".0")
			vm.Run(t, "rm -rf /tmp/own; cp -r /etc/slurm /tmp/own; cp -p /etc/hosts /tmp/hosts.before; echo 10."+number+".0.2 mgmt1.example >>/etc/hosts; sed '"+n.Replace(c.change)+"' /etc/slurm/slurm.conf >/tmp/own/slurm.conf")
			t.Cleanup(func() { vm.Run(t, "cat /tmp/hosts.before >/etc/hosts") })
			before := vm.Picture(t)
			listing(t, "roce0", "")
			if out, code := vm.ByHand(t, "prolog", refuseJob+own); code != 1 || !strings.Contains(out, n.Replace(c.want)) {
				t.Errorf("prolog: exit %d: %s", code, out)
			}
			out, _ := vm.Try(vm.SlurmdEnv + own + " " + vm.Repo() + "/bin/gresnet check")
			if !strings.Contains(out, "fails its prolog: ") || !strings.Contains(out, n.Replace(c.want)) {
				t.Errorf("check: %s", out)
			}
			toml := vm.Run(t, vm.SlurmdEnv+own+" "+vm.Repo()+"/bin/gresnet scan --toml")
			if !strings.Contains(toml, "# no job's: "+n.Replace(c.want)+"\n# [[hca]] # ") {
				t.Errorf("scan --toml: %s", toml)
			}
			vm.Same(t, before)
			listing(t, "roce0", `node = "take"`)
			vm.Must(t, "prolog", refuseJob+own)
			vm.Must(t, "epilog", refuseJob+own)
			vm.Same(t, before)
		})
	}
}

// What is reserved for the host is in slurm.conf. A prolog that cannot read that moves no interface.
func TestAPrologThatCannotTellWhatTheNodeNeedsMovesNothing(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	listing(t, "roce0", "")
	const (
		own     = "/tmp/own/slurm.conf"
		nodes   = "sed 's/^NodeName=.*/&"
		refused = "stays on the node until what is reserved for the host is known"
	)
	for _, c := range []struct {
		name, conf, make, want string
		code                   int
	}{
		{"a line that goes on into another", own, nodes + ` \\/'`, "a line of nodename has no partitionname", 1},
		{"a bracket that does not close", own, "sed 's/^NodeName=.*/NodeName=node[1 NodeAddr=192.0.2.1/'", "no closing bracket", 1},
		{"an include that is not there", own, "sed '$aInclude missing.conf'", "missing.conf", 1},
		{"no such file", "/tmp/own/other.conf", "cat", "other.conf", 1},
		{"a name that nobody knows", own, "sed 's/NodeAddr=[^ ]*/NodeAddr=nobody.invalid/'", refused, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm.Run(t, "rm -rf /tmp/own; cp -r /etc/slurm /tmp/own; "+c.make+" /etc/slurm/slurm.conf >"+own)
			before := vm.Picture(t)
			out, code := vm.ByHand(t, "prolog", refuseJob+" SLURM_CONF="+c.conf)
			said := out + vm.Run(t, "cat /run/gresnet/jobs/900095/env 2>/dev/null || true")
			if code != c.code || !strings.Contains(said, c.want) {
				t.Errorf("prolog: exit %d: %s", code, said)
			}
			vm.Must(t, "epilog", refuseJob)
			vm.Same(t, before)
		})
	}
}

// Whether the site lists the HCA is no matter, unless it says that it goes all the same.
func TestTheInterfaceOfTheDefaultRouteIsNoJobs(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	const (
		needs = "the node's default route needs roce0"
		vlan  = "ip link add link roce0 name v7 type vlan id 7; ip link set v7 up; "
		bond  = "ip link add bond7 type bond miimon 100; ip link set bond7 addrgenmode none; ip link set roce0 down; ip link set roce0 master bond7; ip link set bond7 up; "
		until = "; until ip -br link show %s | grep -q ' UP '; do sleep 0.1; done"
		free  = "ip link set roce0 nomaster; ip link del bond7; modprobe -r bonding"
	)
	for _, c := range []struct {
		name, setup, undo, want string
		taken                   bool // and if the site says so, it goes, and comes back
	}{
		{"its own", "ip route add default via 10.N.0.1 dev roce0 metric 4000", "ip route del default metric 4000", needs, true},
		{"IPv6", "ip -6 route add default via fd00:N::1 dev roce0 metric 4000", "ip -6 route del default metric 4000", needs, false},
		{"over a bridge of a VLAN", vlan + "ip link add br7 type bridge; ip link set br7 addrgenmode none; ip link set v7 master br7; ip link set br7 up; ip route add default dev br7 metric 4000" + fmt.Sprintf(until, "br7"),
			"ip link del br7; ip link del v7", "bridge br7 stands on v7", false},
		{"over an ipvlan", "ip link add link roce0 name i7 type ipvlan; ip link set i7 up; ip route add default dev i7 metric 4000", "ip link del i7", needs, false},
		{"over a bridge of a bond", bond + "ip link add br7 type bridge; ip link set br7 addrgenmode none; ip link set bond7 master br7; ip link set br7 up; ip route add default dev br7 metric 4000" + fmt.Sprintf(until, "br7"),
			"ip link del br7; " + free, "roce0 belongs to bond bond7", false},
		{"in a VRF", "ip link add vrf7 type vrf table 77; ip link set vrf7 up; ip link set roce0 master vrf7", "ip link set roce0 nomaster; ip link del vrf7", "roce0 belongs to vrf vrf7", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := vm.HCAs(t)
			vm.WriteConfig(t, fmt.Sprintf("[slurm]\nsource = [\"policy\"]\n[[policy]]\ncount = %d\n", len(names)))
			number := strings.Split(strings.Fields(vm.Run(t, "ip -4 -br addr show dev roce0"))[2], ".")[1]
			t.Cleanup(func() { vm.Run(t, c.undo+"; ip addr flush dev roce0; "+vm.GiveAddresses) })
			vm.Run(t, strings.ReplaceAll(c.setup, "N", number))
			before := vm.Picture(t)
			if out, code := vm.ByHand(t, "prolog", refuseJob); code != 1 || !strings.Contains(out, c.want) {
				t.Errorf("prolog: exit %d: %s", code, out)
			}
			vm.Same(t, before)
			if c.taken {
				listing(t, "roce0", "")
				if out, code := vm.ByHand(t, "prolog", refuseJob); code != 1 || !strings.Contains(out, c.want) {
					t.Errorf("prolog, where the HCA is listed: exit %d: %s", code, out)
				}
				vm.Same(t, before)
				listing(t, "roce0", `node = "take"`)
				vm.Must(t, "prolog", refuseJob)
				vm.Must(t, "epilog", refuseJob)
				vm.Same(t, before)
			}
		})
	}
}

// What the driver keeps stays with the interface; an IPoIB interface that is made again, as
// its P_Key child, is given it again.
func TestWhatTheDriverKeepsIsAsItWas(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	last := vm.Run(t, "ls /sys/class/net | grep -E '^ib[0-9]+$' | tail -n 1")
	ib := strings.TrimSpace(last)
	names := "roce0 " + ib + " " + ib + ".8001"
	vm.Run(t, "ip link add link "+ib+" name "+ib+".8001 numtxqueues 3 numrxqueues 3 type ipoib pkey 0x8001")
	t.Cleanup(func() { vm.Run(t, "ip link del "+ib+".8001") })
	const set = `for i in %s; do
	ethtool -K $i gro %s
	ethtool -G $i rx %d
	ethtool -L $i combined %d
	case $i in roce*) ethtool --set-priv-flags $i rx_cqe_moder %s rx_striding_rq %s ;; esac # no driver has any for IPoIB
	echo %d >/sys/class/net/$i/gro_flush_timeout
	for f in /sys/class/net/$i/queues/rx-*/rps_cpus; do echo %d >$f; done
done`
	const coalesce = "for i in %s; do ethtool -C $i rx-usecs %d rx-frames %d; done"
	both := ib + " " + ib + ".8001"
	vm.Run(t, fmt.Sprintf(set, names, "off", 512, 3, "off", "on", 2000, 3)+"\n"+fmt.Sprintf(coalesce, both, 16, 8))
	t.Cleanup(func() {
		vm.Run(t, fmt.Sprintf(set, "roce0 "+ib, "on", 1024, 4, "on", "off", 0, 0)+"\n"+fmt.Sprintf(coalesce, ib, 0, 0))
	})
	before := vm.Picture(t)
	look := func() string {
		return vm.Run(t, "for i in "+names+`; do
	ethtool -k $i
	ethtool -g $i
	ethtool -l $i
	ethtool --show-priv-flags $i
	ip -d -j link show $i | jq '.[] | .num_tx_queues, .num_rx_queues'
	grep . /sys/class/net/$i/gro_flush_timeout /sys/class/net/$i/queues/*/* 2>/dev/null || true
done
for i in `+both+`; do ethtool -c $i; done`)
	}
	had := look()
	unspaced := strings.NewReplacer(" ", "", "\t", "").Replace(had)
	for what, times := range map[string]int{
		"generic-receive-offload:off": 3, "gro_flush_timeout:2000": 3,
		"rps_cpus:3": 5, // of three queues, and one of each IPoIB interface
		"RX:512\n":   3, "Combined:3\n": 3, "rx_cqe_moder:off": 1, "rx_striding_rq:on": 1,
		"rx-usecs:16\n": 2, "rx-frames:8\n": 2,
	} {
		if strings.Count(unspaced, what) != times {
			t.Fatalf("not each has %q:\n%s", what, had)
		}
	}
	vm.Must(t, "prolog", refuseJob)
	inJob := vm.Run(t, "nsenter --net=/run/gresnet/jobs/900095/netns ethtool -k "+ib)
	if !strings.Contains(inJob, "generic-receive-offload: off") {
		t.Errorf("in the job it has\n%s", inJob)
	}
	vm.Must(t, "epilog", refuseJob)
	if has := look(); has != had {
		t.Errorf("the interfaces have (-), and had (+)\n%s", netnstest.Diff(has, had))
	}
	vm.Same(t, before)
}

func TestAnHCAWithoutAnInterfaceIsTakenAndReturned(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.Run(t, "modprobe -r ib_ipoib")
	defer vm.Run(t, "modprobe ib_ipoib; udevadm settle; "+vm.Dress+vm.Repo()+"/bin/gresnet close")
	before := vm.Picture(t)
	vm.Must(t, "prolog", refuseJob)
	if n := strings.TrimSpace(vm.Run(t, "ls /run/gresnet/jobs/900095/dev | grep -c uverbs")); n != "2" {
		t.Errorf("the job has %s HCAs, wanted 2", n)
	}
	vm.Must(t, "epilog", refuseJob)
	vm.Same(t, before)
}
