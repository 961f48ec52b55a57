package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// docs/checks.md has what needs no kernel.
func TestCheckFailsForHCAsThatAPrologWouldRefuse(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	vm.WriteConfig(t, vm.AskScontrol)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	number := strings.Split(strings.Fields(vm.Run(t, "ip -4 -br addr show dev roce0"))[2], ".")[1]
	before := vm.Picture(t)
	if out, code := check(t); code != 0 || strings.Contains(out, "error  ") {
		t.Fatalf("a node where all is well: exit %d\n%s", code, out)
	}
	for _, c := range []struct{ name, make, undo, want string }{
		{"a bond", "ip link add bond7 type bond miimon 100; ip link set bond7 addrgenmode none; ip link set roce0 down; ip link set roce0 master bond7; ip link set roce0 up; ip link set bond7 up",
			"ip link set roce0 nomaster; ip link del bond7; modprobe -r bonding", "roce0 belongs to bond bond7"},
		{"a queueing discipline", "tc qdisc replace dev roce0 root handle 7: htb; tc class add dev roce0 parent 7: classid 7:1 htb rate 1gbit", "tc qdisc del dev roce0 root", "roce0 has "},
		{"the default route", "ip route add default via 10.N.0.1 dev roce0 metric 4000", "ip route del default metric 4000", "the node's default route needs roce0"},
		{"NodeAddr", "cp -p /etc/slurm/slurm.conf /tmp/slurm.conf.before; sed -i 's/NodeAddr=[^ ]*/NodeAddr=10.N.0.2/' /etc/slurm/slurm.conf", "cp -p /tmp/slurm.conf.before /etc/slurm/slurm.conf", "roce0 has the address of NodeAddr 10.N.0.2"},
		{"a port that is down", "ip link set roce0 down", "ip link set roce0 up", "port 1 is DOWN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := strings.NewReplacer(".N.", "."+number+".")
			vm.Run(t, n.Replace(c.make))
			out, code := check(t)
			vm.Run(t, c.undo+"; "+vm.GiveAddresses)
			bad := ""
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "error ") {
					bad += line
				}
			}
			if code != 1 || !strings.Contains(bad, n.Replace(c.want)) || !strings.Contains(bad, "; ") {
				t.Errorf("exit %d\n%s", code, out)
			}
			vm.Eventually(t, "check finds no error any more", func() bool {
				_, code := check(t)
				return code == 0
			})
		})
	}
	vm.Same(t, before)
}

// check runs the check as an administrator does.
func check(t *testing.T) (string, int) {
	t.Helper()
	out, _ := vm.Try("rc=0; " + vm.Repo() + "/bin/gresnet-prolog check 2>&1 || rc=$?; echo \"exit $rc\"")
	end := strings.LastIndex(out, "exit ")
	return out[:end], vm.Atoi(out[end+len("exit "):])
}
