package access

import (
	"encoding/binary"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/guest/vm"
)

// isRestricted tells whether root alone reaches the node's device nodes.
func isRestricted(t *testing.T) bool {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, "stat -c '%a %U' /dev/infiniband")) == "700 root"
}

// hostModes returns who may open the node's uverbs devices, as "0600 root" or so, each once.
func hostModes(t *testing.T) string {
	t.Helper()
	vm.Run(t, "udevadm settle")
	return strings.Join(strings.Split(strings.TrimSpace(vm.Run(t, "stat -c '%a %U' /dev/infiniband/uverbs* | sort -u")), "\n"), ", ")
}

// reopen is what docs/configuration.md says of a change to host = "open".
const reopen = "udevadm trigger --settle --action=add --subsystem-match=infiniband_verbs --subsystem-match=infiniband_mad; udevadm trigger --settle --action=add --subsystem-match=misc --sysname-match=rdma_cm"

func TestWithoutAnHCAOfItsOwnAJobHasNone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	asAfterBoot(t)
	if got := hostModes(t); got != "666 root" || isRestricted(t) {
		t.Fatalf("the kernel's device nodes are %s", got)
	}
	probe := vm.ProbeProgram(t)
	const tryAll = "for d in $(seq -f /dev/infiniband/uverbs%g 0 9) /dev/infiniband/rdma_cm; do ! (exec 3<>$d) || echo opened; done"
	if out := vm.As(t, "alice", "srun bash -c "+vm.Quote(tryAll)+" 2>&1"); strings.Contains(out, "opened") || strings.Count(out, "Permission denied") != 11 {
		t.Errorf("a job without a GRES, the first since the boot: %s", out)
	}
	if got := hostModes(t); got != "600 root" || !isRestricted(t) {
		t.Errorf("device nodes are %s after a prolog, their folder is restricted: %v", got, isRestricted(t))
	}
	before := vm.Picture(t)
	if out := vm.As(t, "alice", "srun --gres=nic:2 env GRESNET_PROBE=/dev/infiniband "+probe); strings.Count(out, ": context") != 2 {
		t.Errorf("a job with two HCAs: %s", out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
	if out, err := vm.TryAs("alice", "GRESNET_PROBE=/dev/infiniband "+probe); err == nil || strings.Contains(out, "context") {
		t.Errorf("outside of any job: %v: %s", err, out)
	}
}

func TestWhatTheSiteDoesNotListIsNotRestricted(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.Run(t, reopen)
	vm.Must(t, "prolog", vm.ReturnJob)
	vm.Must(t, "epilog", vm.ReturnJob)
	names := vm.HCAs(t)
	for i, name := range names {
		node := vm.UverbsOf(t, name)
		want := "666"
		if i == 0 || i == len(names)-1 {
			want = "600"
		}
		if got := strings.TrimSpace(vm.Run(t, "stat -c %a /dev/infiniband/"+node)); got != want {
			t.Errorf("%s of %s is %s, want %s", node, name, got, want)
		}
	}
}

func TestALeaseRestoresRestrictedNodesWhoeverOpenedThem(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	names := vm.HCAsWithGPUs(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.ReturnJob)
	for _, name := range names {
		vm.Run(t, "chmod 666 /dev/infiniband/"+vm.UverbsOf(t, name))
	}
	vm.Must(t, "epilog", vm.ReturnJob)
	vm.Same(t, before)
}

func TestAnOpenNodeIsRestoredOpenAndRestrictedWhenTheSiteWantsThat(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	restricting := vm.Run(t, "cat /etc/gresnet/gresnet.toml")
	vm.WriteConfig(t, restricting+"[access]\nhost = \"open\"\n")
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	vm.Run(t, reopen)
	before := vm.Picture(t)
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	vm.Same(t, before)
	vm.Must(t, "prolog", vm.ReturnJob)
	vm.WriteConfig(t, restricting)
	vm.Must(t, "epilog", vm.ReturnJob) // what host was when the job began holds
	vm.Same(t, before)
	vm.WriteConfig(t, strings.Split(restricting, "[[hca]]")[0]) // all of them
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	if got := hostModes(t); got != "600 root" || !isRestricted(t) {
		t.Errorf("device nodes are %s, their folder is restricted: %v", got, isRestricted(t))
	}
	vm.WriteConfig(t, vm.Config+"[access]\nhost = \"open\"\n")
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	vm.Run(t, reopen)
	vm.Same(t, before)
}

// Some sites give HCAs to a group of users by setfacl, and no HCA to others.
func TestTheAccessControlListOfADeviceNodeIsReturned(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.WriteConfig(t, vm.Run(t, "cat /etc/gresnet/gresnet.toml")+"[access]\nhost = \"open\"\n")
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	vm.Run(t, reopen+"; chmod 600 /dev/infiniband/uverbs*")
	t.Cleanup(func() {
		vm.WriteConfig(t, vm.Config)
		vm.Run(t, vm.Repo()+"/bin/gresnet close")
	})
	// The owner and alice may open it, as linux/posix_acl_xattr.h has that; its group may not, though the
	// mode says so.
	list := []byte{2, 0, 0, 0}
	for _, e := range []struct {
		tag, allowed uint16
		id           uint32
	}{{1, 6, ^uint32(0)}, {2, 6, 1000}, {4, 0, ^uint32(0)}, {16, 6, ^uint32(0)}, {32, 0, ^uint32(0)}} {
		list = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(list, e.tag), e.allowed), e.id)
	}
	for _, name := range vm.HCAs(t) {
		path := "/dev/infiniband/" + vm.UverbsOf(t, name)
		for attribute, value := range map[string][]byte{"system.posix_acl_access": list, "trusted.rail": []byte(name)} {
			if err := unix.Setxattr(path, attribute, value, 0); err != nil {
				t.Fatalf("set %s of %s: %v", attribute, path, err)
			}
			t.Cleanup(func() { unix.Removexattr(path, attribute) })
		}
	}
	const open = "for d in /dev/infiniband/uverbs*; do ! (exec 3<>$d) 2>/dev/null || echo opened; done"
	before := vm.Picture(t)
	all := strings.Count(vm.As(t, "alice", open), "opened")
	vm.Must(t, "prolog", vm.ReturnJob)
	if with := strings.Count(vm.As(t, "alice", open), "opened"); with != all-2 {
		t.Errorf("alice may open %d device nodes while a job has two HCAs, and %d before", with, all)
	}
	vm.Must(t, "epilog", vm.ReturnJob)
	vm.Same(t, before)
	if again := strings.Count(vm.As(t, "alice", open), "opened"); again != all || all != len(vm.HCAs(t)) {
		t.Errorf("alice may open %d device nodes, and %d before, of %d", again, all, len(vm.HCAs(t)))
	}
	if out := vm.As(t, "bob", open); out != "" {
		t.Errorf("bob: %s", out)
	}
}

// asAfterBoot makes device nodes what they are before gresnet.service has run.
func asAfterBoot(t *testing.T) {
	t.Helper()
	vm.WriteConfig(t, vm.Config+"[access]\nhost = \"open\"\n")
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	vm.Run(t, reopen)
	vm.WriteConfig(t, vm.Config)
}

// withRule has udev know the rule of the package, with the program where the package
// has it, on a node whose gresnet.service has run.
func withRule(t *testing.T) {
	t.Helper()
	const undo = "rm -f /run/udev/rules.d/90-gresnet.rules /usr/sbin/gresnet; udevadm control --reload"
	vm.Run(t, "mkdir -p /run/udev/rules.d; cp "+vm.Repo()+"/packaging/systemd/udev.rules /run/udev/rules.d/90-gresnet.rules; ln -s "+vm.Repo()+"/bin/gresnet /usr/sbin; udevadm control --reload; "+vm.Repo()+"/bin/gresnet boot")
	t.Cleanup(func() { vm.Run(t, undo) })
}

func TestTheRuleForUdevKeepsNodesRestrictedThatAreMadeAgain(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	withRule(t)
	vm.Run(t, reopen)
	for i, name := range vm.HCAs(t) {
		want := "666"
		if i == 0 || i == len(vm.HCAs(t))-1 {
			want = "600" // those that the site lists
		}
		if got := strings.TrimSpace(vm.Run(t, "stat -c %a /dev/infiniband/"+vm.UverbsOf(t, name))); got != want {
			t.Errorf("the node of %s is %s, want %s", name, got, want)
		}
	}
}

func TestUdevRestrictsByItselfTheNodesOfAnHCAOnceTheProgramHasRestrictedThem(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	withRule(t)
	vm.Run(t, reopen) // the program has looked at each HCA
	const program = "/usr/sbin/gresnet"
	was := vm.Run(t, "stat -c '%n %a %U' /dev/infiniband/*")
	vm.Run(t, "mv "+program+" "+program+".away; printf '#!/bin/sh\nenv >>/tmp/started\n' >"+program+"; chmod 755 "+program)
	t.Cleanup(func() { vm.Run(t, "rm -f /tmp/started; mv "+program+".away "+program) })
	vm.Run(t, reopen)
	if now := vm.Run(t, "stat -c '%n %a %U' /dev/infiniband/*"); now != was || !strings.Contains(now, " 600 root") || !strings.Contains(now, " 666 root") {
		t.Errorf("the nodes were\n%s\nand are\n%s", was, now)
	}
	const hcas = "while read -r node; do cat /sys/class/infiniband_*/${node##*/}/ibdev; done | sort -u"
	started := vm.Run(t, "sed -n 's/^DEVNAME=//p' /tmp/started | "+hcas)
	others := vm.Run(t, "find /dev/infiniband -type c -name 'uverbs*' ! -perm 600 | "+hcas)
	if started != others {
		t.Errorf("the program was started for the nodes of\n%s\nand is needed for those of\n%s", started, others)
	}
}

func TestTheRuleForUdevDoesNothingWhereTheSiteWantsNodesOpen(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.AnHCAOfEachKind(t)
	withRule(t)
	vm.WriteConfig(t, vm.Run(t, "cat /etc/gresnet/gresnet.toml")+"[access]\nhost = \"open\"\n")
	vm.Run(t, vm.Repo()+"/bin/gresnet close; "+reopen)
	if got := hostModes(t); got != "666 root" {
		t.Errorf("device nodes are %s", got)
	}
}

func TestTheRuleForUdevLeavesLeasesAlone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.HCAsWithGPUs(t)
	withRule(t)
	vm.Run(t, reopen)
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.ReturnJob)
	const nodes = "stat -c '%n %a %u %t:%T' /run/gresnet/jobs/*/dev/*"
	leased := vm.Run(t, nodes)
	vm.Run(t, reopen)
	if got := vm.Run(t, nodes); got != leased {
		t.Errorf("the lease's device nodes are\n%swere\n%s", got, leased)
	}
	vm.Must(t, "epilog", vm.ReturnJob)
	vm.Same(t, before)
}

func TestBootRestrictsWhatTheSiteWantsRestricted(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	asAfterBoot(t)
	vm.WriteConfig(t, "[acess]\n")
	if out, code := vm.Command(t, "gresnet boot"); code != 1 || hostModes(t) != "666 root" || isRestricted(t) {
		t.Errorf("with a configuration that cannot be read: exit %d, device nodes are %s: %s", code, hostModes(t), out)
	}
	vm.WriteConfig(t, vm.Config)
	if out, code := vm.Command(t, "gresnet boot"); code != 0 || hostModes(t) != "600 root" || !isRestricted(t) {
		t.Errorf("exit %d, device nodes are %s: %s", code, hostModes(t), out)
	}
	vm.WriteConfig(t, "[acess]\n")
	if out, code := vm.Command(t, "gresnet boot"); code != 1 || !isRestricted(t) {
		t.Errorf("a configuration that cannot be read opens what was restricted: exit %d: %s", code, out)
	}
	vm.WriteConfig(t, vm.Config)
}
