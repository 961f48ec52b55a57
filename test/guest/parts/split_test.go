package parts

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/standin"
)

// inParts returns a configuration that gives some VFs of both PFs, with more keys for each. GPU n is
// VF n's of the RoCE PF.
func inParts(count int, roceMore, ibMore string) string {
	config := "[slurm]\nsource = [\"gpu\"]\n"
	for i, more := range []string{roceMore, ibMore} {
		config += fmt.Sprintf("[[hca]]\nindex = %d\npart = \"vf\"\ncount = %d\nmatch = \"pci=%s\"\n%s", i*count, count, []string{rocePF, ibPF}[i], more)
	}
	return config
}

// boot splits PFs as a configuration says, and has them whole again at the end of the test.
func boot(t *testing.T, config string) {
	t.Helper()
	t.Cleanup(func() {
		vm.WriteConfig(t, vm.Config)
		vm.Run(t, "for pf in "+rocePF+" "+ibPF+"; do echo 0 >/sys/bus/pci/devices/$pf/sriov_numvfs; done; udevadm settle; "+vm.ForgetTable+"; "+vm.Repo()+"/bin/gresnet close")
	})
	vm.WriteConfig(t, config)
	vm.Run(t, vm.ForgetTable)
	vm.Run(t, vm.Repo()+"/bin/gresnet boot")
}

// addresses returns what the VFs have, and their PF on record.
func addresses(t *testing.T) string {
	t.Helper()
	return vm.Run(t, "for d in /sys/bus/pci/devices/"+rocePF+"/virtfn*; do cat $d/net/*/address $d/net/*/ifindex; done; ip link show "+roceLink+" | grep -o 'vf . *link/ether [^ ]*'; "+
		"for d in /sys/bus/pci/devices/"+ibPF+"/virtfn*; do cat $d/infiniband/*/node_guid $d/infiniband/*/ports/1/gids/0 $d/net/*/ifindex; done")
}

// stable returns the addresses without the indices that each bind deals again.
func stable(addresses string) string {
	var list []string
	for line := range strings.Lines(addresses) {
		if strings.Contains(line, ":") {
			list = append(list, line)
		}
	}
	return strings.Join(list, "")
}

func TestBootSplitsPFsIntoVFsWithAddressesThatStay(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, inParts(3, "", ""))
	first := addresses(t)
	if strings.Contains(first, "0000:0000:0000:0000\n") || strings.Contains(first, "link/ether 00:00:00:00:00:00") || strings.Count(stable(first), "\n") != 12 {
		t.Fatalf("the VFs have\n%s", first)
	}
	for line := range strings.Lines(stable(first)) {
		if strings.HasPrefix(line, "vf") {
			if mac := strings.Fields(line)[3]; !strings.Contains(first, mac+"\n") {
				t.Errorf("its PF has %q on record:\n%s", line, first)
			}
		}
	}
	if again := vm.Run(t, vm.Repo()+"/bin/gresnet boot"); addresses(t) != first {
		t.Errorf("a second boot changed something: %s\n%s\n%s", again, first, addresses(t))
	}
	// As after a kill in the middle: one has no driver, the other PF no VFs.
	vm.Run(t, "echo "+vfOf(t, rocePF, 1)+" >/sys/bus/pci/drivers/ibfake/unbind; echo 0 >/sys/bus/pci/devices/"+ibPF+"/sriov_numvfs; "+vm.Repo()+"/bin/gresnet boot")
	if now := stable(addresses(t)); now != stable(first) {
		t.Errorf("the VFs had\n%s\nand have\n%s", stable(first), now)
	}
	text := vm.Run(t, vm.Repo()+"/bin/gresnet scan --gres-conf")
	if strings.Count(text, "Name=nic File=/var/lib/gresnet/gres/nic") != 6 || !strings.Contains(text, rocePF+"/vf2") {
		t.Errorf("gres.conf is\n%s", text)
	}
	if modes := vm.Run(t, "cd /dev/infiniband; stat -c %a $(ls -d uverbs*)"); strings.Contains(modes, "666") && strings.Count(modes, "600") < 8 {
		t.Errorf("device nodes have the modes\n%s", modes)
	}
}

func TestBootSaysWhyItDoesNotSplitAPF(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, inParts(2, "", ""))
	before := vm.Picture(t)
	fails := func(config, want string) {
		t.Helper()
		vm.WriteConfig(t, config)
		out, err := vm.Try(vm.Repo() + "/bin/gresnet boot")
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %v\n%s", want, err, out)
		}
		vm.Same(t, before)
	}
	fails(inParts(3, "", ""), "split "+rocePF+" into 3 VFs: it has 2")
	fails(inParts(9, "", ""), "split "+rocePF+" into 9 VFs: it can have 8")
}

func TestBootLeavesTheVFOfAJobAloneAndMakesNoOtherInItsPlace(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, inParts(2, "gpus = [0, 1]\n", ""))
	before := stable(addresses(t))
	const job = "SLURM_JOB_ID=900203 SLURM_JOB_GPUS=1"
	vm.Must(t, "prolog", job)
	end := standin.Start(t, vm.InNamespace("/run/gresnet/jobs/900203/netns"))
	link := func() string { return inJob(t, "900203", "ip -br link show "+roceLink+"v1") }
	was := link()
	vm.Run(t, vm.Repo()+"/bin/gresnet boot")
	if now := link(); now != was {
		t.Errorf("the job's VF was %s and is %s", was, now)
	}
	file := "/sys/bus/pci/devices/" + rocePF + "/sriov_numvfs"
	vm.Run(t, "echo 0 >"+file)
	out, err := vm.Try(vm.Repo() + "/bin/gresnet boot")
	if err == nil || !strings.Contains(out, "split "+rocePF+": a job has VF [1] of it, and the node has not") || vm.Run(t, "cat "+file) != "0\n" {
		t.Errorf("there are VFs where a job has one: %v\n%s", err, out)
	}
	end()
	if out, code := vm.ByHand(t, "epilog", job); code != 2 {
		t.Errorf("the epilog exits with %d: %s", code, out)
	}
	vm.Run(t, vm.Repo()+"/bin/gresnet boot")
	if now := stable(addresses(t)); now != before {
		t.Errorf("the VFs had\n%s\nand have\n%s", before, now)
	}
}

// A boot that is killed after it told a PF the MAC of a VF, and before the VF's driver bound the VF again,
// leaves a VF whose random MAC is not the one that the PF has on record.
func TestBootBindsAVFAgainThatHasNotTakenItsAddressAndThatNoJobHas(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, inParts(4, "gpus = [0, 1, 2, 3]\ninterface = \"keep\"\n", ""))
	vfs := func() (all []string) {
		for n := range 4 {
			all = append(all, vm.Run(t, "cat /sys/bus/pci/devices/"+vfOf(t, rocePF, n)+"/net/*/address /sys/bus/pci/devices/"+vfOf(t, rocePF, n)+"/net/*/ifindex"))
		}
		return all
	}
	given := vfs()
	mac := func(n int) string { first, _, _ := strings.Cut(given[n], "\n"); return first }
	// VF 0 has a MAC of the node's. The PF was told another one of VF 3, by the node, which has not bound it again.
	vm.Run(t, "ip link set "+roceLink+" vf 0 trust on; ip link set "+roceLink+"v0 address 02:00:00:00:00:70; ip link set "+roceLink+" vf 3 mac 02:00:00:00:00:73")
	for _, n := range []int{1, 2} {
		vm.Run(t, fmt.Sprintf("ip link set %s vf %d mac 00:00:00:00:00:00", roceLink, n))
		rebind(t, vfOf(t, rocePF, n))
		vm.Run(t, fmt.Sprintf("ip link set %s vf %d mac %s", roceLink, n, mac(n)))
	}
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	const job = "SLURM_JOB_ID=900215 SLURM_JOB_GPUS=2"
	vm.Must(t, "prolog", job)
	if vm.Claims(t, "900215") == "" {
		t.Fatal("the job has no VF")
	}
	end := standin.Start(t, vm.InNamespace("/run/gresnet/jobs/900215/netns"))
	before := vfs()
	out := vm.Run(t, vm.Repo()+"/bin/gresnet boot")
	now := vfs()
	if now[0] != before[0] || now[2] != before[2] || now[3] != before[3] {
		t.Errorf("boot touched a VF that is in order, or a job's: they had\n%s\nand have\n%s\n%s", before, now, out)
	}
	if before[1] == now[1] || !strings.HasPrefix(now[1], mac(1)+"\n") {
		t.Errorf("VF 1 had\n%s\nand has\n%s\n%s", before[1], now[1], out)
	}
	end()
	vm.Must(t, "epilog", job)
	vm.Run(t, vm.Repo()+"/bin/gresnet boot")
	if last := vfs(); last[0] != now[0] || last[1] != now[1] || last[3] != now[3] || !strings.HasPrefix(last[2], mac(2)+"\n") {
		t.Errorf("after the job they have\n%s", last)
	}
}

// Nobody has the settings of an HCA any more whose lease was deleted. If the node has lost the HCA, nothing
// needs them.
func TestReleaseFreesAQuarantinedVFThatTheNodeHasLostAndBootSplitsThePFAgain(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, inParts(2, "gpus = [0, 1]\n", ""))
	before := stable(addresses(t))
	const job, lease = "SLURM_JOB_ID=900216 SLURM_JOB_GPUS=1", "/run/gresnet/jobs/900216"
	vm.Must(t, "prolog", job)
	vm.Run(t, "umount "+lease+"/netns "+lease+"/dev; rm -rf "+lease+"; echo 0 >/sys/bus/pci/devices/"+rocePF+"/sriov_numvfs")
	if out, code := vm.ByHand(t, "epilog", job); code != 2 || !strings.Contains(out, "its lease was removed") {
		t.Errorf("the epilog exits with %d: %s", code, out)
	}
	if out, err := vm.Try(vm.Repo() + "/bin/gresnet boot"); err == nil || !strings.Contains(out, "a job has VF [1] of it") {
		t.Errorf("boot makes a VF that is quarantined: %v\n%s", err, out)
	}
	const vf = rocePF + "/vf1"
	if out, code := vm.Command(t, "gresnet release "+vf); code != 0 || !strings.Contains(out, "warning: ") || !strings.Contains(out, "("+vf+") is released: the node does not have it any more [GN377]") {
		t.Errorf("release exits with %d: %s", code, out)
	}
	if left := vm.Claims(t, "900216"); left != "" {
		t.Errorf("the job still has %s", left)
	}
	vm.Run(t, vm.Repo()+"/bin/gresnet boot")
	if now := stable(addresses(t)); now != before {
		t.Errorf("the VFs had\n%s\nand have\n%s", before, now)
	}
	vm.Must(t, "prolog", job)
	vm.Must(t, "epilog", job)
}
