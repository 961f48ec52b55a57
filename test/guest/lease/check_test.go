package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// lib/admin/check has what needs no kernel.
func TestCheckFailsForHCAsThatAPrologWouldRefuse(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
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
		{"a route over two HCAs", "ip route add 172.17.0.0/16 nexthop via 10.N.0.1 dev roce0 nexthop dev roce1", "ip route del 172.17.0.0/16", "route 172.17.0.0/16 of roce0 needs roce1, too"},
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

// The rows of docs/errors.md are made on a tree of files, and a few of them here by an administrator's
// hand, on a node with a Slurm that runs.
func TestCheckFailsForMistakesInFilesOfARealNode(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	vm.WriteConfig(t, vm.AskScontrol)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	before := vm.Picture(t)
	const conf = "/etc/slurm/slurm.conf"
	wrapper := func(call string) string {
		return "sed -i 's,^Prolog=.*,Prolog=/etc/slurm/prolog.sh,' " + conf + "; printf '#!/bin/sh\\n" + call + "\\n' >/etc/slurm/prolog.sh; chmod 755 /etc/slurm/prolog.sh"
	}
	program := vm.Repo() + "/bin/gresnet-prolog"
	if out, code := check(t); code != 0 {
		t.Fatalf("a node where all is well: exit %d\n%s", code, out)
	}
	vm.Run(t, "rm -rf /tmp/well; mkdir /tmp/well; cp -a /etc/slurm /etc/gresnet /tmp/well")
	for _, c := range []struct{ name, make, want string }{
		{"no Prolog", "sed -i /^Prolog=/d " + conf, "it has no Prolog"},
		{"no Epilog", "sed -i /^Epilog=/d " + conf, "it has no Epilog"},
		{"a misspelt Epilog", "sed -i 's,^Epilog=.*,&x,' " + conf, "is not there"},
		{"a wrapper that is not executable", wrapper("exec "+program) + "; chmod -x /etc/slurm/prolog.sh", "is not executable"},
		{"a wrapper that users can write", wrapper("exec "+program) + "; chmod o+w /etc/slurm/prolog.sh", "others than root may write"},
		{"no Contain", "sed -i s/^PrologFlags=.*/PrologFlags=Serial/ " + conf, "neither Contain nor Alloc"},
		{"GresTypes without nic", "sed -i s/^GresTypes=.*/GresTypes=gpu/ " + conf, "GresTypes lacks nic"},
		{"a node without NICs", "sed -i 's/,nic:[0-9]*//' " + conf, "has no nic"},
		{"a node with more NICs", "sed -i 's/,nic:[0-9]*/,nic:9/' " + conf, "has 9 nic"},
		{"an include that is not there", "echo 'Include nodes.conf' >>" + conf, "nodes.conf"},
		{"no gres.conf", "rm /etc/slurm/gres.conf", "there is no /etc/slurm/gres.conf"},
		{"no NIC in gres.conf", "sed -i '/Name=nic/d' /etc/slurm/gres.conf", "it has no nic"},
		{"no plugstack.conf", "rm /etc/slurm/plugstack.conf", "plugstack.conf: read "},
		{"no plugin", ": >/etc/slurm/plugstack.conf", "does not have gresnet's plugin"},
		{"an optional plugin", "sed -i s/required/optional/ /etc/slurm/plugstack.conf", "is optional"},
		{"an argument that the plugin does not know", "sed -i 's/$/ pmix=on/' /etc/slurm/plugstack.conf", `does not know "pmix=on"`},
		{"another state directory of the plugin's", "sed -i 's,$, state=/run/other,' /etc/slurm/plugstack.conf", "looks for leases in /run/other"},
		{"contain_spank", "sed -i 's/^SlurmdParameters=.*/&,contain_spank/' " + conf, "PMIx cannot be relayed"},
		{"a /run of each job's own", "echo JobContainerType=job_container/tmpfs >>" + conf + "; echo 'BasePath=/tmp Dirs=/run' >/etc/slurm/job_container.conf", "hides the leases"},
		{"an unknown key", "echo '[slurm2]' >>/etc/gresnet/gresnet.toml", "unknown key"},
		{"a gresnet.toml that users can write", "chmod o+w /etc/gresnet/gresnet.toml", "others than root may write it"},
		{"no scontrol", "sed -i '/^source/a scontrol = \"/opt/no/scontrol\"' /etc/gresnet/gresnet.toml", "find scontrol"},
		{"no folder for metrics", "printf '[metrics]\\nfile = \"/var/no/gresnet.prom\"\\n' >>/etc/gresnet/gresnet.toml", "is no folder"},
		{"no folder for accounting", "printf '[accounting]\\nfile = \"/var/no/jobs\"\\n' >>/etc/gresnet/gresnet.toml", "no job has a line"},
		{"an HCA that is not there", "printf '[[hca]]\\nindex = 0\\nmatch = \"rdma=mlx5_77\"\\n' >>/etc/gresnet/gresnet.toml", "mlx5_77"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm.Run(t, c.make)
			out, code := check(t)
			vm.Run(t, "rm -rf /etc/slurm /etc/gresnet; cp -a /tmp/well/slurm /tmp/well/gresnet /etc")
			found := false
			for line := range strings.Lines(out) {
				found = found || strings.HasPrefix(line, "error ") && strings.Contains(line, c.want) && strings.Contains(line, "; ")
			}
			if code != 1 || !found {
				t.Errorf("exit %d, wanted %s\n%s", code, c.want, out)
			}
		})
	}
	vm.Same(t, before)
}

// check runs the check as an administrator does.
func check(t *testing.T) (string, int) {
	t.Helper()
	out, _ := vm.Try("rc=0; " + vm.Repo() + "/bin/gresnet check 2>&1 || rc=$?; echo \"exit $rc\"")
	end := strings.LastIndex(out, "exit ")
	return out[:end], vm.Atoi(out[end+len("exit "):])
}
