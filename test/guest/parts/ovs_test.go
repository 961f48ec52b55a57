package parts

import (
	"os"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/kernel/sriov"
	"gresnet/test/guest/vm"
)

// ovsShow prints the VLANs of all ports.
const ovsShow = "ovs-vsctl --timeout=60 --format=csv --no-headings --columns=name,tag,trunks,vlan_mode,_uuid list Port | sort"

const ovsCtl = "/usr/share/openvswitch/scripts/ovs-ctl --system-id=node1 "

// openVSwitch is that of Debian.
var openVSwitch = ports{
	make: ovsCtl + "start >&2; ovs-vsctl --timeout=60 add-br br0; ip link set br0 up",
	add:  "ovs-vsctl --timeout=60 add-port br0 $rep",
	end:  "ovs-vsctl --timeout=60 del-br br0; " + ovsCtl + "stop >&2",
	show: ovsShow,
}

func TestInSwitchdevModeJobsReachEachOtherInTheTagOfTheirPortsOfOpenVSwitchAlone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	openVSwitch.reachEachOther(t, func(rep string) string {
		return strings.Join(strings.Fields(vm.Run(t, "ovs-vsctl --timeout=60 get Port "+rep+" tag trunks vlan_mode")), " ")
	}, "%s [] access")
}

func TestInSwitchdevModeAKillAnywhereLosesNothingOfPortsOfOpenVSwitch(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	openVSwitch.loseNothing(t, "ovs-vsctl --timeout=60 set Port $rep tag=7 trunks=8,9,100 vlan_mode=native-tagged")
}

// ovs-vsctl kills who has called it, before it does the next thing and after it.
func TestAKillWhileOpenVSwitchIsAskedLosesNothing(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	openVSwitch.boot(t, 2, inParts(2, "gpus = [0, 1]\nvf = {vlan = 100}\n", ""))
	before := openVSwitch.look(t)
	vm.Run(t, "mv /usr/bin/ovs-vsctl /usr/bin/vsctl")
	t.Cleanup(func() { vm.Run(t, "mv /usr/bin/vsctl /usr/bin/ovs-vsctl") })
	kill := func(program, script string) {
		t.Helper()
		script = "#!/bin/sh\n[ \"$1\" = set ] && rm /run/kill 2>/dev/null || exec /usr/bin/vsctl \"$@\"\n" + script
		if err := os.WriteFile("/usr/bin/ovs-vsctl", []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		vm.Run(t, "touch /run/kill")
		if out, code := vm.ByHand(t, program, switchdevJob(1, "one")); code == 0 || vm.Run(t, "ls /run/kill 2>/dev/null || true") != "" {
			t.Errorf("the %s was not killed by %s: %d, %s", program, script, code, out)
		}
	}
	for _, script := range []string{"kill -9 $PPID; exec /usr/bin/vsctl \"$@\"\n", "/usr/bin/vsctl \"$@\"; kill -9 $PPID\n"} {
		kill("prolog", script)
		vm.Must(t, "epilog", switchdevJob(1, "one"))
		openVSwitch.same(t, before)
		vm.Must(t, "prolog", switchdevJob(1, "one"))
		kill("epilog", script)
		vm.Must(t, "epilog", switchdevJob(1, "one"))
		openVSwitch.same(t, before)
	}
}

// An epilog that cannot ask Open vSwitch fails, and the next one puts all back. A port that was made again it leaves alone.
func TestAnEpilogSaysWhichPortsOfOpenVSwitchItLeaves(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	openVSwitch.boot(t, 2, inParts(2, "gpus = [0, 1]\nvf = {vlan = 100}\n", ""))
	before, job := openVSwitch.look(t), switchdevJob(1, "one")
	vm.Must(t, "prolog", job)
	vm.Run(t, ovsCtl+"stop >&2")
	if out, code := vm.ByHand(t, "epilog", job); code != 2 || !strings.Contains(out, "database connection failed") {
		t.Errorf("without Open vSwitch the epilog exits with %d: %s", code, out)
	}
	vm.Run(t, ovsCtl+"start >&2")
	// As while a package is replaced: the program is there, and cannot start.
	vm.Run(t, "mv /usr/bin/ovs-vsctl /usr/bin/vsctl; printf '#!/usr/bin/none\\n' >/usr/bin/ovs-vsctl; chmod 755 /usr/bin/ovs-vsctl")
	if out, code := vm.ByHand(t, "epilog", job); code != 2 || !strings.Contains(out, "ask Open vSwitch by /usr/bin/ovs-vsctl") {
		t.Errorf("with an ovs-vsctl that does not start the epilog exits with %d: %s", code, out)
	}
	vm.Run(t, "mv /usr/bin/vsctl /usr/bin/ovs-vsctl")
	vm.Must(t, "epilog", job)
	openVSwitch.same(t, before)

	vm.Must(t, "prolog", job)
	rep := representor(t, 1)
	vm.Run(t, "ovs-vsctl --timeout=60 del-port "+rep+" -- add-port br0 "+rep+" tag=9")
	shown := vm.Run(t, ovsShow)
	out, code := vm.ByHand(t, "epilog", job)
	if log := vm.Run(t, "ip -br link show up dev "+rep); code != 0 || log != "" {
		t.Errorf("the epilog exits with %d: %s; the representor is up: %q", code, out, log)
	}
	if now := vm.Run(t, ovsShow); now != shown {
		t.Errorf("the new port has\n%s\nand had\n%s", now, shown)
	}
	vm.Same(t, before.node)
}

func TestInSwitchdevModeAJobIsRefusedThatOpenVSwitchCannotGiveItsVLAN(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	openVSwitch.boot(t, 2, inParts(2, "gpus = [0, 1]\nvf = {vlan = 100}\n", ""))
	rep, other := representor(t, 1), representor(t, 0)
	for n, c := range []struct{ first, want, then string }{
		{"ovs-vsctl --timeout=60 del-port " + other + " -- del-port " + rep + " -- add-bond br0 bond0 " + rep + " " + other, rep + " is no port of its own in the database of Open vSwitch",
			"ovs-vsctl --timeout=60 del-port bond0 -- add-port br0 " + rep},
		{"mv /usr/bin/ovs-vsctl /usr/bin/it", "ask Open vSwitch by /usr/bin/ovs-vsctl: there is no such program", "mv /usr/bin/it /usr/bin/ovs-vsctl"},
		{ovsCtl + "--no-ovsdb-server stop >&2", "ovs-vswitchd does not run on the node", "true"},
		{ovsCtl + "stop >&2", "database connection failed", ovsCtl + "start >&2"},
	} {
		p := openVSwitch
		if n > 0 {
			p.show = "true" // nobody can be asked
		}
		p.refuse(t, c.first, "one", c.want)
		vm.Run(t, c.then)
	}
	vm.Must(t, "prolog", switchdevJob(1, "one"))
	vm.Must(t, "epilog", switchdevJob(1, "one"))
}

// An undo finds the port in whatever state the prolog was killed at, or somebody else has left it in.
func TestAPortOfOpenVSwitchGetsItsVLANsBackFromWhateverItHas(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	vm.Run(t, openVSwitch.make+"; ip link add rep0 type dummy; ovs-vsctl --timeout=60 add-port br0 rep0")
	t.Cleanup(func() { vm.Run(t, openVSwitch.end+"; ip link del rep0") })
	rep := sriov.Link{Name: "rep0", Index: vm.Atoi(strings.TrimSpace(vm.Run(t, "cat /sys/class/net/rep0/ifindex")))}
	states := []string{
		"tag=[]", "tag=5", "tag=0 vlan_mode=access", "trunks=7,8", "trunks=9 vlan_mode=trunk", "tag=7 trunks=7,100 vlan_mode=native-tagged",
		"tag=7 trunks=100 vlan_mode=native-untagged", "tag=100 vlan_mode=access", "tag=3 vlan_mode=dot1q-tunnel",
	}
	reset := func(state string) string {
		vm.Run(t, "ip link set rep0 down; ovs-vsctl --timeout=60 set Port rep0 tag=[] trunks=[] vlan_mode=[] "+state)
		return vm.Run(t, ovsShow)
	}
	read := func() sriov.Port {
		t.Helper()
		ovs, err := sriov.Takes(t.Context(), rep, true)
		if err != nil || ovs == nil {
			t.Fatalf("%+v, %v", ovs, err)
		}
		return sriov.Port{OVS: ovs}
	}
	for n, had := range states {
		shown := reset(had)
		before := read()
		if err := before.In(100).Apply(t.Context(), rep); err != nil {
			t.Errorf("%s: %v", had, err)
		}
		if now := strings.Fields(vm.Run(t, "ovs-vsctl --timeout=60 get Port rep0 tag trunks vlan_mode; ip -br link show up dev rep0 | cut -d ' ' -f 1")); !slices.Equal(now, []string{"100", "[]", "access", "rep0"}) {
			t.Errorf("%s: in VLAN 100 it has %q", had, now)
		}
		for k, found := range []string{"tag=100 vlan_mode=access", states[(n+1)%len(states)], states[(n+4)%len(states)]} {
			if k > 0 {
				reset(found)
			}
			if err := before.Apply(t.Context(), rep); err != nil {
				t.Errorf("%s, from %s: %v", had, found, err)
			}
			if now := vm.Run(t, ovsShow+"; ip -br link show up dev rep0"); now != shown {
				t.Errorf("%s, from %s: it was\n%s\nand is\n%s", had, found, shown, now)
			}
		}
	}
	reset("tag=5")
	before := read()
	vm.Run(t, "ovs-vsctl --timeout=60 del-port rep0 -- add-port br0 rep0 tag=9")
	shown := vm.Run(t, ovsShow)
	if err := before.Apply(t.Context(), rep); err == nil || !strings.Contains(err.Error(), "no row") || !strings.Contains(err.Error(), before.OVS.UUID) {
		t.Errorf("of a port that was made again it says %v", err)
	}
	if now := vm.Run(t, ovsShow); now != shown {
		t.Errorf("the new port has\n%s\nand had\n%s", now, shown)
	}
}
