package parts

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// slurmAsks is a configuration by which slurmctld says what a job has. An emulated machine needs its
// time if many jobs ask at once.
const slurmAsks = "[slurm]\nsource = [\"scontrol\"]\ntimeout = \"10m\"\n"

// bySlurm has Slurm give the HCAs that a configuration lists, as many as it should have, until the
// end of the test. The options are slurm-up's.
func bySlurm(t *testing.T, config string, count int, options ...string) {
	t.Helper()
	vm.Slurm(t)
	t.Cleanup(func() {
		vm.WriteConfig(t, vm.Config)
		vm.Run(t, vm.ForgetTable+"; "+vm.Repo()+"/bin/gresnet close")
		vm.RestartSlurm(t)
	})
	if strings.Contains(config, "part = \"vf\"") {
		boot(t, config)
	}
	t.Cleanup(func() {
		vm.Run(t, "scancel -u alice")
		vm.Eventually(t, "the epilogs have run", vm.NoLease)
	})
	vm.WriteConfig(t, config)
	vm.NoDeadline(t) // jobs come at once, and the kernel moves one RDMA device at a time
	program := vm.Repo() + "/bin/gresnet"
	vm.Run(t, vm.ForgetTable+"; "+program+" close; "+program+" scan --gres-files && "+program+" scan --gres-conf >/tmp/nics.conf")
	if lines := vm.Run(t, "cat /tmp/nics.conf"); strings.Count(lines, "Name=nic ") != count {
		t.Fatalf("gres.conf has\n%s", lines)
	}
	vm.RestartSlurm(t, append(options, "--nics /tmp/nics.conf --conf AuthInfo=cred_expire=600")...)
}

// stays returns a batch job of alice's whose step says what a script prints, and then stays.
func stays(t *testing.T, options, script string) (job string) {
	t.Helper()
	return vm.Submit(t, "alice", options, "srun bash -c "+vm.Quote("echo says; "+script+"; echo said; sleep 1000"))
}

// said returns what the step of such a job says.
func said(t *testing.T, job string) (text string) {
	t.Helper()
	vm.Eventually(t, "the step of job "+job+" runs", func() (is bool) {
		out, _ := os.ReadFile("/tmp/" + job + ".out")
		_, text, _ = strings.Cut(string(out), "says\n")
		text, _, is = strings.Cut(text, "said\n")
		return is
	})
	return text
}

// end ends jobs, and wants the node as it was.
func end(t *testing.T, jobs []string, before string) {
	t.Helper()
	vm.Run(t, "scancel "+strings.Join(jobs, " "))
	for _, job := range jobs {
		vm.Ended(t, job)
	}
	vm.Same(t, before)
}

// slots lists an HCA in slots, with more keys.
func slots(index int, kind, hca, part string, count int, more string) string {
	return fmt.Sprintf("[[hca]]\nindex = %d\ntype = %q\nmatch = \"rdma=%s\"\npart = %q\ncount = %d\nnetwork = \"10.128.0.0/16\"\n%s", index, kind, hca, part, count, more)
}

func TestSixteenJobsAtOnceHaveTheVFsOfTwoPFs(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	config := inParts(8, "type = \"vf\"\nvf = {vlan = 100, trust = false}\n", "type = \"vf\"\n")
	bySlurm(t, strings.Replace(config, "[slurm]\nsource = [\"gpu\"]\n", slurmAsks, 1), 16)
	before := vm.Picture(t)
	var jobs []string
	for range 16 {
		jobs = append(jobs, stays(t, "--gres=nic:vf:1", "echo $GRESNET_HCAS $(ls /dev/infiniband | wc -l)"))
	}
	had := map[string]string{}
	for _, job := range jobs {
		has := strings.TrimSpace(said(t, job))
		hca, devices, _ := strings.Cut(has, " ")
		if other, twice := had[hca]; twice || devices != "1" {
			t.Errorf("job %s has %q, and so has job %s", job, has, other)
		}
		had[hca] = job
	}
	claims := vm.Jq(t, ".claims[] | \"\\(.hca.pci)/vf\\(.hca.vf)\"")
	for _, pf := range []string{rocePF, ibPF} {
		for vf := range 8 {
			if !strings.Contains(claims, fmt.Sprintf("%s/vf%d\n", pf, vf)) {
				t.Errorf("no job has VF %d of %s:\n%s", vf, pf, claims)
			}
		}
	}
	if vlans := vm.Run(t, "ip link show "+roceLink); strings.Count(vlans, "vlan 100") != 8 {
		t.Errorf("not all VFs are in their VLAN:\n%s", vlans)
	}
	end(t, jobs, before)
}

func TestEightJobsHaveOneHCAAtOnce(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	vm.Slurm(t)
	hca := hcaOf(t, slotLink)
	bySlurm(t, slurmAsks+slots(0, "slot", hca, "macvlan", 8, ""), 8)
	before := vm.Picture(t)
	var jobs []string
	for range 8 {
		jobs = append(jobs, stays(t, "--gres=nic:slot:1", `exec 3<>/dev/infiniband/uverbs* && opened=yes; echo $GRESNET_HCAS opened=$opened $(ip -br -4 addr show roce0)`))
	}
	var addresses []string
	for _, job := range jobs {
		words := strings.Fields(said(t, job))
		if len(words) < 5 || words[0] != hca || words[1] != "opened=yes" || slices.Contains(addresses, words[4]) {
			t.Fatalf("job %s says %q", job, words)
		}
		addresses = append(addresses, words[4])
	}
	outside, _ := vm.Try("setpriv --reuid bob --regid bob --init-groups sh -c 'exec 3<>/dev/infiniband/" + vm.UverbsOf(t, hca) + "' 2>&1")
	if !strings.Contains(outside, "ermission denied") {
		t.Errorf("somebody else opens the HCA: %s", outside)
	}
	end(t, jobs, before)
}

// physicists are a partition of Slurm whose jobs are in a partition of the fabric.
const (
	physicists    = "[[policy]]\npartition = \"physics\"\npkey = 0x0002\n"
	slurmsPhysics = "--conf 'PartitionName=physics Nodes=node1 MaxTime=INFINITE State=UP'"
)

func TestJobsOfTwoPartitionsOfSlurmAreInTwoPartitionsOfTheFabric(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	vm.Slurm(t)
	hca, link := "ibfake0", linkOf(t, "ibfake0")
	bySlurm(t, slurmAsks+slots(0, "slot", hca, "pkey", 4, "pkey = 0x8001\n")+physicists, 4, slurmsPhysics)
	before := vm.Picture(t)
	const script = `exec 3<>/dev/infiniband/uverbs* && echo opened
for name in GRESNET_HCAS GRESNET_INTERFACES GRESNET_PKEY NCCL_IB_PKEY UCX_IB_PKEY OMPI_MCA_btl_openib_pkey; do echo $name=${!name}; done
ip -o -d link show $GRESNET_INTERFACES | grep -o "pkey  *0x[0-9a-f]*"
ip -br -4 addr show $GRESNET_INTERFACES`
	var jobs []string
	for _, partition := range []string{"all", "physics", "physics"} {
		jobs = append(jobs, stays(t, "--gres=nic:slot:1 -p "+partition, script))
	}
	for i, job := range jobs {
		pkey, index, partition := "0x8002", "2", "0x0002"
		if i == 0 {
			pkey, index, partition = "0x8001", "1", "0x0001"
		}
		want := fmt.Sprintf("opened\nGRESNET_HCAS=%s\nGRESNET_INTERFACES=%s\nGRESNET_PKEY=%s\nNCCL_IB_PKEY=%s\nUCX_IB_PKEY=%s\nOMPI_MCA_btl_openib_pkey=%[5]s\npkey %[3]s\n", hca, link, pkey, index, partition)
		text := said(t, job)
		// The host's part of the link's address is 2, and there are 4 slots.
		slot := strings.TrimSpace(vm.Jq(t, ".claims[] | select(.job == "+job+").hca.slot"))
		address := fmt.Sprintf("10.128.0.%d/16", 2*4+vm.Atoi(slot))
		if !strings.HasPrefix(text, want) || !strings.Contains(text, address) {
			t.Errorf("job %s of slot %s wants %s and\n%s\nand says\n%s", job, slot, address, want, text)
		}
		status := vm.Run(t, vm.Repo()+"/bin/gresnet status "+job)
		if !strings.Contains(status, "P_Key "+pkey+": nic "+slot+"\n") {
			t.Errorf("status of job %s says\n%s", job, status)
		}
	}
	end(t, jobs, before)
}

func TestAMixedNodeGivesEachJobThePartsThatItAsksFor(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short, vm.VF)
	vm.Slurm(t)
	whole, roce, ib := strings.TrimSpace(vm.Run(t, "ls /sys/bus/pci/devices/"+ibPF+"/infiniband")), hcaOf(t, slotLink), "ibfake0"
	config := slurmAsks + fmt.Sprintf("[[hca]]\nindex = 0\ntype = \"whole\"\nmatch = \"pci=%s\"\n", ibPF) +
		fmt.Sprintf("[[hca]]\nindex = 1\ntype = \"vf\"\nmatch = \"pci=%s\"\npart = \"vf\"\ncount = 3\nvf = {vlan = 100}\n", rocePF) +
		slots(4, "slot", roce, "macvlan", 3, "") + slots(7, "ib", ib, "pkey", 3, "pkey = 0x8001\n") + physicists
	bySlurm(t, config, 10, slurmsPhysics)
	before := vm.Picture(t)
	const script = `kinds=; for i in ${GRESNET_INTERFACES//,/ }; do kinds+=" "$(ip -o -d link show $i | grep -oE "macvlan|ipoib|pkey  *0x[0-9a-f]*" | xargs); done
echo "$GRESNET_HCAS:$kinds; P_Key $GRESNET_PKEY; $(ls /dev/infiniband | grep -c uverbs) devices"`
	vf := "(" + strings.Join(strings.Fields(vm.Run(t, "ls /sys/bus/pci/devices/"+rocePF+"/virtfn*/infiniband | grep -v :")), "|") + ")"
	const isVF, isSlot, isIB = `[123]=\S+`, `[456]=\S+`, `[789]=\S+`
	var jobs []string
	asked := []struct{ options, claims, says string }{
		{"--gres=nic:whole:1", "0=" + whole, whole + ": ipoib pkey 0xffff; P_Key ; 1 devices"},
		{"--gres=nic:vf:1", isVF, vf + ": ; P_Key ; 1 devices"},
		{"--gres=nic:slot:1", isSlot, roce + ": macvlan; P_Key ; 1 devices"},
		{"--gres=nic:ib:1", isIB, ib + ": ipoib pkey 0x8001; P_Key 0x8001; 1 devices"},
		{"--gres=nic:ib:1 -p physics", isIB, ib + ": ipoib pkey 0x8002; P_Key 0x8002; 1 devices"},
		{"--gres=nic:vf:1,nic:slot:1", isVF + " " + isSlot, vf + "," + roce + ":  macvlan; P_Key ; 2 devices"},
		{"--gres=nic:vf:1,nic:slot:1,nic:ib:1 -p physics", isVF + " " + isSlot + " " + isIB, vf + "," + roce + "," + ib + ":  macvlan ipoib pkey 0x8002; P_Key none,none,0x8002; 3 devices"},
	}
	for _, a := range asked {
		jobs = append(jobs, stays(t, a.options, script))
	}
	for i, a := range asked {
		text, claims := strings.TrimSpace(said(t, jobs[i])), vm.Claims(t, jobs[i])
		if !regexp.MustCompile("^" + a.says + "$").MatchString(text) {
			t.Errorf("the job with %s says %q, want %q", a.options, text, a.says)
		}
		if !regexp.MustCompile("^" + a.claims + "$").MatchString(claims) {
			t.Errorf("the job with %s has claimed %q, want %q", a.options, claims, a.claims)
		}
	}
	if all := vm.Run(t, vm.Repo()+"/bin/gresnet status --json | jq -r '.hcas[] | select(.claim).index' | sort -n | xargs"); all != "0 1 2 3 4 5 6 7 8 9\n" {
		t.Errorf("the jobs have of all HCAs %s", all)
	}
	if vlans := vm.Run(t, "ip link show "+roceLink); strings.Count(vlans, "vlan 100") != 3 {
		t.Errorf("not all VFs are in their VLAN:\n%s", vlans)
	}
	end(t, jobs, before)
}
