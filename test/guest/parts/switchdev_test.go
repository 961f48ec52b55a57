package parts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/kernel/sriov"
	"gresnet/test/guest/vm"
)

// ports are what representors are ports of.
type ports struct {
	make, add, end string // add is for the representor $rep
	show           string // prints their VLANs
}

// linuxBridge filters VLANs.
var linuxBridge = ports{
	make: "ip link add br0 type bridge vlan_filtering 1; ip link set br0 up",
	add:  "ip link set $rep master br0",
	end:  "ip link del br0",
	show: "bridge vlan show",
}

// boot splits the PFs, that of RoCE in switchdev mode. The representors of its first VFs are ports, and down.
func (p ports) boot(t *testing.T, first int, config string) {
	t.Helper()
	t.Cleanup(func() { vm.Run(t, p.end+"; devlink dev eswitch set pci/"+rocePF+" mode legacy") })
	vm.Run(t, p.make+"; devlink dev eswitch set pci/"+rocePF+" mode switchdev")
	boot(t, config)
	vm.Run(t, "udevadm settle")
	for n := range first {
		vm.Run(t, "rep="+representor(t, n)+"; "+p.add)
	}
}

// picture is a node, and the VLANs of its representors' ports.
type picture struct{ node, vlans string }

func (p ports) look(t *testing.T) picture {
	t.Helper()
	return picture{vm.Picture(t), vm.Run(t, p.show)}
}

// same fails the test unless the node is as it was.
func (p ports) same(t *testing.T, before picture) bool {
	t.Helper()
	vm.Same(t, before.node)
	if now := vm.Run(t, p.show); now != before.vlans {
		t.Errorf("the VLANs were\n%s\nand are\n%s", before.vlans, now)
	}
	return !t.Failed()
}

// representor returns the name of the representor of one of the RoCE PF's VFs.
func representor(t *testing.T, vf int) string {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, fmt.Sprintf("cd /sys/class/net; { grep -lx pf0vf%d */phys_port_name 2>/dev/null || true; } | cut -d / -f 1", vf)))
}

// switchdevJob returns the job that has VF n, by an account.
func switchdevJob(n int, account string) string {
	return fmt.Sprintf("SLURM_JOB_ID=90023%d SLURM_JOB_GPUS=%[1]d SLURM_JOB_ACCOUNT=%s", n, account)
}

func TestInSwitchdevModeJobsReachEachOtherInTheVLANOfTheirRepresentorsAlone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	linuxBridge.reachEachOther(t, func(rep string) string {
		now := strings.Fields(vm.Run(t, "bridge vlan show dev "+rep+" | tail -n +2"))
		return strings.Join(now[1:], " ")
	}, "%s PVID Egress Untagged")
}

// reachEachOther fails the test unless jobs do that whose representors are in one VLAN, and no others. has returns how
// a representor is set, and want says how it is for a VLAN.
func (p ports) reachEachOther(t *testing.T, has func(rep string) string, want string) {
	t.Helper()
	p.boot(t, 3, inParts(3, "gpus = [0, 1, 2]\nvf = {vlan = 100}\n", "")+"[[policy]]\naccount = \"other\"\nvf = {vlan = 200}\n")
	before := p.look(t)
	reaches := func(from, to int) bool {
		_, err := vm.Try(fmt.Sprintf("nsenter --net=/run/gresnet/jobs/90023%d/netns ping -n -c 2 -W 3 10.21.0.%d", from, to+1))
		return err == nil
	}
	for _, third := range []string{"one", "other"} {
		for n, account := range []string{"one", "one", third} {
			vm.Must(t, "prolog", switchdevJob(n, account))
			inJob(t, fmt.Sprintf("90023%d", n), fmt.Sprintf("ip addr add 10.21.0.%d/24 dev %sv%d; ip link set %[2]sv%[3]d up", n+1, roceLink, n))
			rep, vlan := representor(t, n), map[string]string{"one": "100", "other": "200"}[account]
			if now := has(rep); now != fmt.Sprintf(want, vlan) {
				t.Errorf("account %s: the port of VF %d has %q", account, n, now)
			}
			if up := vm.Run(t, "ip -br link show up dev "+rep); up == "" {
				t.Errorf("the representor of VF %d is not up", n)
			}
		}
		t.Logf("the VLANs of the jobs' ports:\n%s", vm.Run(t, p.show))
		vm.Eventually(t, "jobs of one VLAN reach each other", func() bool { return reaches(0, 1) && reaches(1, 0) })
		if third == "one" {
			vm.Eventually(t, "the third job of the VLAN reaches both", func() bool { return reaches(2, 0) && reaches(1, 2) })
		} else if reaches(2, 0) || reaches(1, 2) {
			t.Errorf("jobs of two VLANs reach each other:\n%s", vm.Run(t, p.show))
		}
		for n := range 3 {
			vm.Must(t, "epilog", switchdevJob(n, third))
		}
		p.same(t, before)
	}
	t.Logf("the VLANs before and after:\n%s", before.vlans)
}

// One representor is up and a trunk, one is down, and a third one is no port.
func TestInSwitchdevModeAKillAnywhereLosesNothingOfRepresentors(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	linuxBridge.loseNothing(t, "bridge vlan add dev $rep vid 7-9; bridge vlan add dev $rep vid 100 untagged")
}

// loseNothing kills prolog and epilog anywhere. trunk makes the port of representor $rep one.
func (p ports) loseNothing(t *testing.T, trunk string) {
	t.Helper()
	config := inParts(3, "gpus = [0, 1, 2]\nvf = {vlan = 100}\n", "") + "[[policy]]\naccount = \"none\"\nvf = {vlan = 0}\n"
	p.boot(t, 2, config)
	vm.Run(t, "rep="+representor(t, 0)+"; ip link set $rep up; "+trunk)
	before := p.look(t)
	kills := vm.KillAnywhere(t, "SLURM_JOB_ID=900234 SLURM_JOB_GPUS=0,1", func() bool { return p.same(t, before) })
	t.Logf("%d kills", kills)
	// Without a VLAN of the site's, a port keeps its own.
	for _, n := range []int{0, 2} {
		vm.Must(t, "prolog", switchdevJob(n, "none"))
		if vm.Run(t, "ip -br link show up dev "+representor(t, n)) == "" {
			t.Errorf("the representor of VF %d is not up", n)
		}
		if now := vm.Run(t, p.show); now != before.vlans {
			t.Errorf("the job of VF %d changes the VLANs:\n%s", n, now)
		}
		vm.Must(t, "epilog", switchdevJob(n, "none"))
		p.same(t, before)
	}
	// A prolog that fails undoes it itself.
	vm.WriteConfig(t, config+"[hooks]\nready = \"/usr/bin/false\"\nfault = \"node\"\n")
	if out, code := vm.ByHand(t, "prolog", switchdevJob(1, "one")); code == 0 || !strings.Contains(out, "/usr/bin/false") {
		t.Errorf("the prolog exits with %d: %s", code, out)
	}
	p.same(t, before)
}

// An undo finds the port in whatever state the prolog was killed at, or somebody else has left it in.
func TestAPortGetsItsVLANsBackFromWhateverItHas(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	vm.Run(t, "ip link add br1 type bridge vlan_filtering 1; ip link add br2 type bridge vlan_filtering 1; ip link add rep0 type dummy; ip link set rep0 master br1")
	t.Cleanup(func() { vm.Run(t, "ip link del br1; ip link del br2; ip link del rep0 2>/dev/null || true") })
	rep := sriov.Link{Name: "rep0", Index: vm.Atoi(strings.TrimSpace(vm.Run(t, "cat /sys/class/net/rep0/ifindex")))}
	read := func() sriov.Port {
		t.Helper()
		p, err := sriov.ReadPort(rep, true)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	same := func(a, b sriov.Port) bool { return a.Up == b.Up && slices.Equal(a.VLANs, b.VLANs) }
	states := []string{
		"ip link set rep0 up", "bridge vlan del dev rep0 vid 1", "bridge vlan add dev rep0 vid 100 pvid untagged",
		"bridge vlan del dev rep0 vid 1; bridge vlan add dev rep0 vid 2-9", "bridge vlan add dev rep0 vid 7 pvid; ip link set rep0 up",
		"bridge vlan del dev rep0 vid 1; bridge vlan add dev rep0 vid 100 pvid untagged",
	}
	reset := func(state string) {
		vm.Run(t, "ip link set rep0 nomaster; ip link set rep0 down; ip link set rep0 master br1; "+state)
	}
	for _, had := range states {
		reset(had)
		before := read()
		if err := before.In(100).Apply(t.Context(), rep); err != nil {
			t.Errorf("%s: %v", had, err)
		}
		if now := read(); !same(now, sriov.Port{Up: true, VLANs: []sriov.PortVLAN{{ID: 100, PVID: true, Untagged: true}}}) {
			t.Errorf("%s: in VLAN 100 it is %v %q", had, now.Up, now)
		}
		for _, found := range states {
			reset(found)
			if err := before.Apply(t.Context(), rep); err != nil {
				t.Errorf("%s, from %s: %v", had, found, err)
			}
			if now := read(); !same(now, before) {
				t.Errorf("%s, from %s: it was %v %q and is %v %q", had, found, before.Up, before, now.Up, now)
			}
		}
	}
	reset("true")
	before := read()
	vm.Run(t, "ip link set rep0 master br2; bridge vlan add dev rep0 vid 200 pvid untagged; ip link set rep0 up")
	if err := before.Apply(t.Context(), rep); err != nil {
		t.Error(err)
	}
	if now := read(); now.Up || len(now.VLANs) != 2 || now.VLANs[1].ID != 200 {
		t.Errorf("on another bridge it is %v %q", now.Up, now)
	}
	vm.Run(t, "ip link del rep0")
	if err := before.Apply(t.Context(), rep); !errors.Is(err, sriov.ErrNoRepresentor) {
		t.Errorf("of one that is gone it says %v", err)
	}
}

func TestInSwitchdevModeAJobIsRefusedWhoseVFCannotHaveItsVLAN(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	linuxBridge.boot(t, 2, inParts(2, "gpus = [0, 1]\nvf = {vlan = 100}\n", "")+"[[policy]]\naccount = \"fast\"\nvf = {max_rate = 100}\n")
	rep := representor(t, 1)
	for _, c := range []struct{ first, account, want string }{
		{"true", "fast", rocePF + " is in switchdev mode: of vf its VFs take vlan alone"},
		{"ip addr add fd00:77::1/64 dev " + rep, "one", rep + " is down and has IPv6 addresses"},
		{"ip addr del fd00:77::1/64 dev " + rep + "; ip link set br0 type bridge vlan_filtering 0", "one", rep + " is a port of br0, which filters no VLANs"},
		{"ip link set " + rep + " nomaster", "one", rep + " is a port of no bridge"},
		{"ip link set br0 type bridge vlan_filtering 1; ip link set " + rep + " master br0; bridge link set dev " + rep + " vlan_tunnel on", "one", "the VLANs of representor " + rep + " have tunnels"},
		{"bridge link set dev " + rep + " vlan_tunnel off; bridge vlan set dev " + rep + " vid 1 state blocking", "one", "a VLAN of representor " + rep + " has settings of its own"},
		{"ip link add bond7 type bond; ip link set " + rep + " nomaster; ip link set " + rep + " master bond7", "one", rep + " is a port of bond7 (bond), and VLANs are set on Linux bridges and Open vSwitch alone"},
		{"ip link set " + rep + " nomaster; ip link del bond7; ip netns add elsewhere; ip link set " + rep + " netns elsewhere", "one", "the representor of VF 1 of " + rocePF + " is not on the node"},
	} {
		linuxBridge.refuse(t, c.first, c.account, c.want)
	}
	vm.Run(t, "ip netns del elsewhere")
	out, _ := vm.Try(vm.Repo() + "/bin/gresnet check")
	if want := rocePF + " is in switchdev mode: of vf its VFs take vlan alone"; !strings.Contains(out, want) {
		t.Errorf("check says nothing of %q:\n%s", want, out)
	}
}

// refuse fails the test unless the job with VF 1 is refused after a command, with the node as it was.
func (p ports) refuse(t *testing.T, first, account, want string) {
	t.Helper()
	vm.Run(t, first)
	before := p.look(t)
	job := switchdevJob(1, account)
	out, code := vm.ByHand(t, "prolog", job)
	if env := vm.Run(t, "cat /run/gresnet/jobs/900231/env"); code != 0 || !strings.Contains(env, "\nGRESNET_REFUSED=vf of the site's configuration: ") || !strings.Contains(env, want) {
		t.Errorf("after %s the prolog exits with %d: %s; wanted %q in\n%s", first, code, out, want, env)
	}
	vm.Must(t, "epilog", job)
	p.same(t, before)
}
