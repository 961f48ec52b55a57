package parts

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// forPartitions has a site give an InfiniBand HCA in slots for partitions. Slot n serves GPU n. link is
// the HCA's interface. Without a policy jobs have P_Key 0x8001.
func forPartitions(t *testing.T, more string) (hca, link string) {
	t.Helper()
	hca = "ibfake0"
	vm.Slurm(t)
	link = linkOf(t, hca)
	vm.WriteConfig(t, partitions(hca, more))
	t.Cleanup(func() {
		for n := range 8 {
			vm.ByHand(t, "epilog", slotJob(n))
		}
		vm.WriteConfig(t, vm.Config)
		vm.Run(t, vm.ForgetTable+"; "+vm.Repo()+"/bin/gresnet close")
	})
	vm.Run(t, vm.ForgetTable+"; chmod 755 /dev/infiniband; chmod 666 /dev/infiniband/uverbs*")
	return hca, link
}

// linkOf returns the interface of an InfiniBand HCA.
func linkOf(t *testing.T, hca string) string {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, vm.Repo()+"/bin/gresnet scan --json | jq -r '.hcas[] | select(.name == \""+hca+"\").ports[0].interface'"))
}

// partitions is such a site's gresnet.toml.
func partitions(hca, more string) string {
	return fmt.Sprintf(`[access]
host = "open"
[slurm]
source = ["gpu"]
[[hca]]
index = 0
match = "rdma=%s"
part = "pkey"
count = 8
gpus = [0, 1, 2, 3, 4, 5, 6, 7]
network = "10.128.0.0/16"
pkey = 0x8001
%s`, hca, more)
}

const physics = "[[policy]]\naccount = \"physics\"\npkey = 0x0002\n"

// inAccount returns a job that has slot n and an account.
func inAccount(account string, n int) string { return slotJob(n) + " SLURM_JOB_ACCOUNT=" + account }

func TestJobsOfTwoPartitionsHaveOneHCAAndTheNodeComesBackExactly(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	hca, link := forPartitions(t, physics)
	// The node's own child has a P_Key that a job has, too.
	vm.Run(t, "ip link add link "+link+" name own0 type ipoib pkey 0x8002; ip link set own0 up")
	t.Cleanup(func() { vm.Run(t, "ip link del own0") })
	before := vm.Picture(t)
	jobs := []struct {
		n              int
		account        string
		pkey, index    string
		partition, has string
	}{
		{3, "chemistry", "0x8001", "1", "0x0001", "pkey 0x8001"},
		{0, "physics", "0x8002", "2", "0x0002", "pkey 0x8002"},
		{7, "physics", "0x8002", "2", "0x0002", "pkey 0x8002"},
		{5, "chemistry", "0x8001", "1", "0x0001", "pkey 0x8001"},
	}
	for _, j := range jobs {
		vm.Must(t, "prolog", inAccount(j.account, j.n))
		links := vm.Run(t, fmt.Sprintf("nsenter --net=%s/netns ip -d link show %s; nsenter --net=%[1]s/netns ip -br addr", slotLease(j.n), link))
		// The host's part of the link's address is 2.
		if address := fmt.Sprintf("10.128.0.%d/16", 2*8+j.n); !strings.Contains(links, j.has+" ") || !strings.Contains(links, address) {
			t.Errorf("job %d has no %s with %s:\n%s", j.n, j.has, address, links)
		}
		for name, want := range map[string]string{
			"GRESNET_HCAS": hca, "GRESNET_INTERFACES": link, "GRESNET_PKEY": j.pkey,
			"NCCL_IB_PKEY": j.index, "UCX_IB_PKEY": j.partition, "OMPI_MCA_btl_openib_pkey": j.partition,
		} {
			if got := exported(t, j.n, name); got != want {
				t.Errorf("job %d has %s=%s, want %s", j.n, name, got, want)
			}
		}
		if entry := strings.TrimSpace(vm.Run(t, "cat /sys/class/infiniband/"+hca+"/ports/1/pkeys/"+j.index)); entry != j.pkey {
			t.Errorf("P_Key %s of the port is %s", j.index, entry)
		}
	}
	status := vm.Run(t, vm.Repo()+"/bin/gresnet status")
	// Slots 0 and 7 are those of physics; the free ones are for what [[hca]] says.
	if !strings.Contains(status, "900303") || !strings.Contains(status, "P_Key 0x8002: nic 0,7\n") || !strings.Contains(status, "P_Key 0x8001: nic 1-6\n") {
		t.Errorf("status says\n%s", status)
	}
	for i, j := range jobs {
		if !closed(t, hca) {
			t.Errorf("the node's device node is open, and %d jobs have the HCA", len(jobs)-i)
		}
		// A job may rename its interface.
		vm.Run(t, fmt.Sprintf("nsenter --net=%s/netns ip link set %s down; nsenter --net=%[1]s/netns ip link set %[2]s name mine0", slotLease(j.n), link))
		vm.Must(t, "epilog", slotJob(j.n))
	}
	if closed(t, hca) {
		t.Error("the node's device node stays closed")
	}
	vm.Same(t, before)
}

func TestScanAndPlanSayWhichPKeyAJobHas(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	_, link := forPartitions(t, physics)
	program := vm.Repo() + "/bin/gresnet "
	for command, want := range map[string]string{
		"scan":              "P_Key 0x8001: nic ",
		"scan --toml":       "pkey  = 0x8001",
		"scan --json":       `"pkey": "0x8001"`,
		"plan --job 900301": link + " (P_Key 0x8002)",
	} {
		out := vm.Run(t, inAccount("physics", 1)+" "+program+command)
		if !strings.Contains(out, want) {
			t.Errorf("%s does not say %q:\n%s", command, want, out)
		}
	}
	again := vm.Run(t, program+"scan --toml")
	vm.WriteConfig(t, again)
	if twice := vm.Run(t, program+"scan --toml"); twice != again {
		t.Errorf("scan --toml said\n%s\nand by that\n%s", again, twice)
	}
}

func TestAPKeyChildThatTheEndOfItsNamespaceReturnedIsRemoved(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	forPartitions(t, "")
	before := vm.Picture(t)
	vm.Must(t, "prolog", slotJob(2))
	vm.Run(t, "umount "+slotLease(2)+"/netns")
	vm.Must(t, "epilog", slotJob(2))
	vm.Same(t, before)
}

func TestAnInterfaceForAPartitionHasTheModeOfItsParent(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	_, link := forPartitions(t, "")
	set := func(mode string) {
		vm.Run(t, fmt.Sprintf("ip link set %s down; ip link set %[1]s type ipoib mode %s; ip link set %[1]s up; %[3]s", link, mode, vm.GiveAddresses))
	}
	set("connected")
	t.Cleanup(func() { set("datagram") })
	before := vm.Picture(t)
	vm.Must(t, "prolog", slotJob(4))
	has := vm.Run(t, fmt.Sprintf("nsenter --net=%s/netns ip -d link show %s", slotLease(4), link))
	if !strings.Contains(has, "mode connected") {
		t.Errorf("the job has\n%s", has)
	}
	vm.Must(t, "epilog", slotJob(4))
	vm.Same(t, before)
}

func TestAKillAnywhereLosesNothingOfASlotForAPartition(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	hca, _ := forPartitions(t, physics)
	first := vm.Picture(t)
	job := inAccount("physics", 0)
	for _, others := range []bool{false, true} {
		if others {
			vm.Must(t, "prolog", inAccount("physics", 1))
		}
		before := vm.Picture(t)
		kills := vm.KillAnywhere(t, job, func() bool { vm.Same(t, before); return !t.Failed() && closed(t, hca) == others })
		t.Logf("others: %t, %d kills", others, kills)
	}
	vm.Must(t, "epilog", slotJob(1))
	vm.Same(t, first)
}

// refuses has check and a job's prolog say what is wrong with the configuration, and the node stay as it
// is. The prolog exits with code. If that is 0, the job's refusal says it.
func refuses(t *testing.T, check, want string, code int) {
	t.Helper()
	before := vm.Picture(t)
	if says, _ := vm.Try(vm.Repo() + "/bin/gresnet check 2>&1"); !strings.Contains(says, check) {
		t.Errorf("check does not say %q:\n%s", check, says)
	}
	out, got := vm.ByHand(t, "prolog", inAccount("physics", 0))
	if code == 0 {
		env, _ := vm.Try("cat " + slotLease(0) + "/env")
		out += regexp.MustCompile(`(?m)^GRESNET_REFUSED=.*`).FindString(env)
		vm.Must(t, "epilog", slotJob(0))
	}
	if got != code || !strings.Contains(out, want) {
		t.Errorf("want %q, got exit %d: %s", want, got, out)
	}
	vm.Same(t, before)
}

func TestAPartitionThatTheNodeIsNotInIsFoundByCheckAndRefusedBeforeAnythingChanges(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	_, link := forPartitions(t, "")
	roce := hcaOf(t, slotLink)
	for _, c := range []struct {
		config, prepare, undo string
		check, want           string
		code                  int
	}{
		{strings.ReplaceAll(partitions("ibfake0", ""), "0x8001", "0x8055"), "", "",
			"ibfake0 port 1 has no P_Key 0x8055; it has 0xffff, 0x8001, 0x8002, 0x7fff", "ibfake0 port 1 has no P_Key 0x8055", 1},
		{partitions(roce, ""), "", "", slotLink + " is on Ethernet, which has no P_Keys", slotLink + " is on Ethernet, which has no P_Keys", 1},
		{partitions("ibfake0", ""), "ip link set " + link + " down", vm.GiveAddresses, link + " is down, and so would its interface for a P_Key be", link + " is down", 1},
		// Users choose their account: this must not drain the node.
		{partitions("ibfake0", strings.ReplaceAll(physics, "0x0002", "0x8055")), "", "",
			"policy 1 gives jobs P_Key 0x8055, which ibfake0 port 1 does not have", "pkey of the site's configuration: ibfake0 port 1 has no P_Key 0x8055", 0},
		{strings.Replace(partitions("ibfake0", strings.ReplaceAll(physics, "physics", "chemistry")), "pkey = 0x8001\n", "", 1), "", "",
			"SELinux is not enforcing", "no [[policy]] that fits job 900300 says which P_Key it has on ibfake0", 0},
	} {
		vm.WriteConfig(t, c.config)
		vm.Run(t, c.prepare)
		refuses(t, c.check, c.want, c.code)
		vm.Run(t, c.undo)
	}
}

func TestSeveralSlotsForPartitionsAreForSharedModeAlone(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	forPartitions(t, "")
	before := vm.Picture(t)
	const want = `part = "pkey" with count = 8 is for the shared RDMA netns mode, and the node is in exclusive mode`
	if check, _ := vm.Try(vm.Repo() + "/bin/gresnet check 2>&1"); !strings.Contains(check, want) {
		t.Errorf("check does not say %q:\n%s", want, check)
	}
	if out, code := vm.ByHand(t, "prolog", slotJob(0)); code != 1 || !strings.Contains(out, want) {
		t.Errorf("exit %d: %s", code, out)
	}
	vm.Same(t, before)
}
