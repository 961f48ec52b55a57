package parts

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// inParts is a configuration that gives some VFs of both PFs, with more keys for each. GPU n is
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
		vm.Run(t, "for pf in "+rocePF+" "+ibPF+"; do echo 0 >/sys/bus/pci/devices/$pf/sriov_numvfs; done; udevadm settle; rm -f /run/gresnet/node.json; "+vm.Repo()+"/bin/gresnet-prolog close")
	})
	vm.WriteConfig(t, config)
	vm.Run(t, "rm -f /run/gresnet/node.json")
	vm.Run(t, vm.Repo()+"/bin/gresnet-epilog boot")
}

// addresses are what the VFs have, and their PF on record.
func addresses(t *testing.T) string {
	t.Helper()
	return vm.Run(t, "for d in /sys/bus/pci/devices/"+rocePF+"/virtfn*; do cat $d/net/*/address $d/net/*/ifindex; done; ip link show "+roceLink+" | grep -o 'vf . *link/ether [^ ]*'; "+
		"for d in /sys/bus/pci/devices/"+ibPF+"/virtfn*; do cat $d/infiniband/*/node_guid $d/infiniband/*/ports/1/gids/0 $d/net/*/ifindex; done")
}

// stable are the addresses without the indices that each bind deals anew.
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
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
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
	if again := vm.Run(t, vm.Repo()+"/bin/gresnet-epilog boot"); addresses(t) != first {
		t.Errorf("a second boot changed something: %s\n%s\n%s", again, first, addresses(t))
	}
	// As after a kill in the middle: one has no driver, the other PF no VFs.
	vm.Run(t, "echo "+vfOf(t, rocePF, 1)+" >/sys/bus/pci/drivers/ibfake/unbind; echo 0 >/sys/bus/pci/devices/"+ibPF+"/sriov_numvfs; "+vm.Repo()+"/bin/gresnet-epilog boot")
	if now := stable(addresses(t)); now != stable(first) {
		t.Errorf("the VFs had\n%s\nand have\n%s", stable(first), now)
	}
	text := vm.Run(t, vm.Repo()+"/bin/gresnet-prolog scan --gres-conf")
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
		out, err := vm.Try(vm.Repo() + "/bin/gresnet-epilog boot")
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %v\n%s", want, err, out)
		}
		vm.Same(t, before)
	}
	fails(inParts(3, "", ""), "split "+rocePF+" into 3 VFs: it has 2")
	fails(inParts(9, "", ""), "split "+rocePF+" into 9 VFs: it can have 8")
	vm.Run(t, "devlink dev eswitch set pci/"+rocePF+" mode switchdev")
	t.Cleanup(func() { vm.Run(t, "devlink dev eswitch set pci/"+rocePF+" mode legacy") })
	fails(inParts(2, "", ""), rocePF+" is in switchdev mode")
}

func TestBootLeavesTheVFOfAJobAloneAndMakesNoOtherInItsPlace(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	boot(t, inParts(2, "gpus = [0, 1]\n", ""))
	before := stable(addresses(t))
	const job = "SLURM_JOB_ID=900203 SLURM_JOB_GPUS=1"
	vm.Must(t, "prolog", job)
	pid := strings.TrimSpace(vm.Run(t, "nsenter --net=/run/gresnet/jobs/900203/netns sleep 1000 >/dev/null 2>&1 & echo $!"))
	link := func() string { return inJob(t, "900203", "ip -br link show "+roceLink+"v1") }
	was := link()
	vm.Run(t, vm.Repo()+"/bin/gresnet-epilog boot")
	if now := link(); now != was {
		t.Errorf("the job's VF was %s and is %s", was, now)
	}
	file := "/sys/bus/pci/devices/" + rocePF + "/sriov_numvfs"
	vm.Run(t, "echo 0 >"+file)
	out, err := vm.Try(vm.Repo() + "/bin/gresnet-epilog boot")
	if err == nil || !strings.Contains(out, "split "+rocePF+": a job has VF [1] of it, and the node has not") || vm.Run(t, "cat "+file) != "0\n" {
		t.Errorf("there are VFs where a job has one: %v\n%s", err, out)
	}
	vm.Run(t, "kill "+pid)
	if out, code := vm.ByHand(t, "epilog", job); code != 2 {
		t.Errorf("the epilog exits with %d: %s", code, out)
	}
	vm.Run(t, vm.Repo()+"/bin/gresnet-epilog boot")
	if now := stable(addresses(t)); now != before {
		t.Errorf("the VFs had\n%s\nand have\n%s", before, now)
	}
}
