package parts

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/kernel/sriov"
	"gresnet/test/guest/vm"
)

// bootSwitchdev splits the PFs, that of RoCE in switchdev mode. The representors of its first VFs are ports of a bridge
// that filters VLANs, and down.
func bootSwitchdev(t *testing.T, ports int, config string) {
	t.Helper()
	t.Cleanup(func() { vm.Run(t, "ip link del br0; devlink dev eswitch set pci/"+rocePF+" mode legacy") })
	vm.Run(t, "ip link add br0 type bridge vlan_filtering 1; ip link set br0 up; devlink dev eswitch set pci/"+rocePF+" mode switchdev")
	boot(t, config)
	vm.Run(t, "udevadm settle")
	for n := range ports {
		vm.Run(t, "ip link set "+representor(t, n)+" master br0")
	}
}

// representor returns the name of the representor of one of the RoCE PF's VFs.
func representor(t *testing.T, vf int) string {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, fmt.Sprintf("cd /sys/class/net; { grep -lx pf0vf%d */phys_port_name 2>/dev/null || true; } | cut -d / -f 1", vf)))
}

// withVLANs returns the picture of the node, and the VLANs of its bridges.
func withVLANs(t *testing.T) string {
	t.Helper()
	return vm.Picture(t) + vm.Run(t, "bridge vlan show")
}

// sameVLANs fails the test unless the node is as it was.
func sameVLANs(t *testing.T, before string) bool {
	t.Helper()
	if now := withVLANs(t); now != before {
		vm.Same(t, before[:strings.LastIndex(before, "port ")])
		t.Errorf("the VLANs were\n%s\nand are\n%s", before[strings.LastIndex(before, "port "):], now[strings.LastIndex(now, "port "):])
	}
	return !t.Failed()
}

// switchdevJob returns the job that has VF n, by an account.
func switchdevJob(n int, account string) string {
	return fmt.Sprintf("SLURM_JOB_ID=90023%d SLURM_JOB_GPUS=%[1]d SLURM_JOB_ACCOUNT=%s", n, account)
}

func TestInSwitchdevModeJobsReachEachOtherInTheVLANOfTheirRepresentorsAlone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	bootSwitchdev(t, 3, inParts(3, "gpus = [0, 1, 2]\nvf = {vlan = 100}\n", "")+"[[policy]]\naccount = \"other\"\nvf = {vlan = 200}\n")
	before := withVLANs(t)
	reaches := func(from, to int) bool {
		_, err := vm.Try(fmt.Sprintf("nsenter --net=/run/gresnet/jobs/90023%d/netns ping -n -c 2 -W 3 10.21.0.%d", from, to+1))
		return err == nil
	}
	for _, third := range []string{"one", "other"} {
		for n, account := range []string{"one", "one", third} {
			vm.Must(t, "prolog", switchdevJob(n, account))
			inJob(t, fmt.Sprintf("90023%d", n), fmt.Sprintf("ip addr add 10.21.0.%d/24 dev %sv%d; ip link set %[2]sv%[3]d up", n+1, roceLink, n))
			vlan := map[string]string{"one": "100", "other": "200"}[account]
			if now := strings.Fields(vm.Run(t, "bridge vlan show dev "+representor(t, n)+" | tail -n +2")); !slices.Equal(now[1:], []string{vlan, "PVID", "Egress", "Untagged"}) {
				t.Errorf("account %s: the port of VF %d has %q", account, n, now)
			}
			if up := vm.Run(t, "ip -br link show up dev "+representor(t, n)); up == "" {
				t.Errorf("the representor of VF %d is not up", n)
			}
		}
		vm.Eventually(t, "jobs of one VLAN reach each other", func() bool { return reaches(0, 1) && reaches(1, 0) })
		if third == "one" {
			vm.Eventually(t, "the third job of the VLAN reaches both", func() bool { return reaches(2, 0) && reaches(1, 2) })
		} else if reaches(2, 0) || reaches(1, 2) {
			t.Errorf("jobs of two VLANs reach each other:\n%s", vm.Run(t, "bridge vlan show"))
		}
		for n := range 3 {
			vm.Must(t, "epilog", switchdevJob(n, third))
		}
		sameVLANs(t, before)
	}
}

// One representor is up and a trunk, one is down, and a third one is on no bridge.
func TestInSwitchdevModeAKillAnywhereLosesNothingOfRepresentors(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	config := inParts(3, "gpus = [0, 1, 2]\nvf = {vlan = 100}\n", "") + "[[policy]]\naccount = \"none\"\nvf = {vlan = 0}\n"
	bootSwitchdev(t, 2, config)
	vm.NoDeadline(t)
	up := representor(t, 0)
	vm.Run(t, "ip link set "+up+" up; bridge vlan add dev "+up+" vid 7-9; bridge vlan add dev "+up+" vid 100 untagged")
	before := withVLANs(t)
	kills := vm.KillAnywhere(t, "SLURM_JOB_ID=900234 SLURM_JOB_GPUS=0,1", func() bool { return sameVLANs(t, before) })
	t.Logf("%d kills", kills)
	vm.Must(t, "prolog", switchdevJob(2, "none"))
	if vm.Run(t, "ip -br link show up dev "+representor(t, 2)) == "" {
		t.Error("the representor of VF 2 is not up")
	}
	vm.Must(t, "epilog", switchdevJob(2, "none"))
	sameVLANs(t, before)
	// A prolog that fails undoes it itself.
	vm.WriteConfig(t, config+"[hooks]\nready = \"/usr/bin/false\"\nfault = \"node\"\n")
	if out, code := vm.ByHand(t, "prolog", switchdevJob(1, "one")); code == 0 || !strings.Contains(out, "/usr/bin/false") {
		t.Errorf("the prolog exits with %d: %s", code, out)
	}
	sameVLANs(t, before)
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
		if err := before.In(100).Apply(rep); err != nil {
			t.Errorf("%s: %v", had, err)
		}
		if now := read(); !same(now, sriov.Port{Up: true, VLANs: []sriov.PortVLAN{{ID: 100, PVID: true, Untagged: true}}}) {
			t.Errorf("%s: in VLAN 100 it is %v %q", had, now.Up, now)
		}
		for _, found := range states {
			reset(found)
			if err := before.Apply(rep); err != nil {
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
	if err := before.Apply(rep); err != nil {
		t.Error(err)
	}
	if now := read(); now.Up || len(now.VLANs) != 2 || now.VLANs[1].ID != 200 {
		t.Errorf("on another bridge it is %v %q", now.Up, now)
	}
	vm.Run(t, "ip link del rep0")
	if err := before.Apply(rep); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of one that is gone it says %v", err)
	}
}

func TestInSwitchdevModeAJobIsRefusedWhoseVFCannotHaveItsVLAN(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	bootSwitchdev(t, 2, inParts(2, "gpus = [0, 1]\nvf = {vlan = 100}\n", "")+"[[policy]]\naccount = \"fast\"\nvf = {max_rate = 100}\n")
	rep := representor(t, 1)
	for _, c := range []struct{ first, account, want string }{
		{"true", "fast", rocePF + " is in switchdev mode: of vf its VFs take vlan alone"},
		{"ip addr add fd00:77::1/64 dev " + rep, "one", rep + " is down and has IPv6 addresses"},
		{"ip addr del fd00:77::1/64 dev " + rep + "; ip link set br0 type bridge vlan_filtering 0", "one", rep + " is a port of br0, which filters no VLANs"},
		{"ip link set " + rep + " nomaster", "one", rep + " is a port of no bridge"},
		{"ip link set br0 type bridge vlan_filtering 1; ip link set " + rep + " master br0; bridge link set dev " + rep + " vlan_tunnel on", "one", "the VLANs of representor " + rep + " have tunnels"},
		{"bridge link set dev " + rep + " vlan_tunnel off; bridge vlan set dev " + rep + " vid 1 state blocking", "one", "a VLAN of representor " + rep + " has settings of its own"},
		{"ip link add bond7 type bond; ip link set " + rep + " nomaster; ip link set " + rep + " master bond7", "one", rep + " is a port of bond7 (bond), and VLANs are set on Linux bridges alone"},
		{"ip link set " + rep + " nomaster; ip link del bond7; ip netns add elsewhere; ip link set " + rep + " netns elsewhere", "one", "the representor of VF 1 of " + rocePF + " is not on the node"},
	} {
		vm.Run(t, c.first)
		before := withVLANs(t)
		job := switchdevJob(1, c.account)
		out, code := vm.ByHand(t, "prolog", job)
		if env := vm.Run(t, "cat /run/gresnet/jobs/900231/env"); code != 0 || !strings.Contains(env, "\nGRESNET_REFUSED=vf of the site's configuration: ") || !strings.Contains(env, c.want) {
			t.Errorf("after %s the prolog exits with %d: %s; wanted %q in\n%s", c.first, code, out, c.want, env)
		}
		vm.Must(t, "epilog", job)
		sameVLANs(t, before)
	}
	vm.Run(t, "ip netns del elsewhere")
	out, _ := vm.Try(vm.Repo() + "/bin/gresnet check")
	if want := rocePF + " is in switchdev mode: of vf its VFs take vlan alone"; !strings.Contains(out, want) {
		t.Errorf("check says nothing of %q:\n%s", want, out)
	}
}
