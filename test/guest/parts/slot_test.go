package parts

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"gresnet/test/guest/vm"
)

const slotLink = "roce0"

// inSlots has a site give the RoCE HCA of slotLink in slots. Slot n serves GPU n.
func inSlots(t *testing.T, part, more string) (hca string) {
	t.Helper()
	vm.Slurm(t)
	hca = hcaOf(t, slotLink)
	vm.WriteConfig(t, fmt.Sprintf("[access]\nhost = \"open\"\n[slurm]\nsource = [\"gpu\"]\n[[hca]]\nindex = 0\nmatch = \"rdma=%s\"\npart = %q\ncount = 8\ngpus = [0, 1, 2, 3, 4, 5, 6, 7]\n%s", hca, part, more))
	t.Cleanup(func() {
		for n := range 8 {
			vm.ByHand(t, "epilog", slotJob(n))
		}
		vm.WriteConfig(t, vm.Config)
		vm.Run(t, vm.ForgetTable+"; "+vm.Repo()+"/bin/gresnet close")
	})
	vm.Run(t, vm.ForgetTable+"; chmod 755 /dev/infiniband; chmod 666 /dev/infiniband/uverbs*")
	return hca
}

// hcaOf returns the RoCE HCA of an interface.
func hcaOf(t *testing.T, link string) string {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, "rdma -j link | jq -r '.[] | select(.netdev == \""+link+"\").ifname'"))
}

// slotJob returns the job that has slot n.
func slotJob(n int) string { return fmt.Sprintf("SLURM_JOB_ID=90030%d SLURM_JOB_GPUS=%[1]d", n) }

func slotLease(n int) string { return fmt.Sprintf("/run/gresnet/jobs/90030%d", n) }

// exported returns a variable of a job's.
func exported(t *testing.T, n int, name string) string {
	t.Helper()
	text := vm.Run(t, "cat "+slotLease(n)+"/env")
	found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(text)
	if found == nil {
		t.Errorf("job %d has no %s:\n%s", n, name, text)
		return ""
	}
	return found[1]
}

// closed tells whether the node's own device node of the HCA is root's alone.
func closed(t *testing.T, hca string) bool {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, "stat -c %a /dev/infiniband/"+vm.UverbsOf(t, hca))) == "600"
}

func TestSeveralJobsHaveSlotsOfOneHCAAndTheNodeComesBackExactly(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	for _, part := range []string{"macvlan", "ipvlan", "shared"} {
		network := "network = \"10.128.0.0/16\"\n"
		if part == "shared" {
			network = ""
		}
		hca := inSlots(t, part, network)
		vm.Run(t, "echo 1 >/proc/sys/net/ipv4/conf/roce0/arp_ignore")
		before := vm.Picture(t)
		order := []int{3, 0, 7, 5}
		indices := map[string]int{}
		for _, n := range order {
			vm.Must(t, "prolog", slotJob(n))
			links := vm.Run(t, fmt.Sprintf("nsenter --net=%s/netns ip -d -br addr", slotLease(n)))
			has := regexp.MustCompile(`(?m)^roce0@`).MatchString(links)
			if has != (part != "shared") {
				t.Errorf("%s: job %d has\n%s", part, n, links)
			}
			if got := exported(t, n, "GRESNET_HCAS"); got != hca {
				t.Errorf("%s: job %d has the HCAs %q", part, n, got)
			}
			if part == "shared" {
				continue
			}
			if arp := vm.Run(t, fmt.Sprintf("nsenter --net=%s/netns cat /proc/sys/net/ipv4/conf/roce0/arp_ignore", slotLease(n))); arp != "1\n" {
				t.Errorf("%s: job %d has arp_ignore %q, and the HCA's interface 1", part, n, arp)
			}
			index := exported(t, n, "NCCL_IB_GID_INDEX")
			if other, twice := indices[index]; twice || exported(t, n, "UCX_IB_GID_INDEX") != index {
				t.Errorf("%s: the GID index of job %d is %q, and that of job %d, too", part, n, index, other)
			}
			indices[index] = n
			// The host's part of roce0's address is 2.
			want := fmt.Sprintf("10.128.0.%d/16", 2*8+n)
			if !strings.Contains(links, want) {
				t.Errorf("%s: job %d has no %s:\n%s", part, n, want, links)
			}
			gid := strings.TrimSpace(vm.Run(t, fmt.Sprintf("cat /sys/class/infiniband/%s/ports/1/gids/%s", hca, index)))
			if want := fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a80:%04x", 2*8+n); gid != want {
				t.Errorf("%s: the GID of job %d is %s, want %s", part, n, gid, want)
			}
		}
		if table := vm.Table(t); len(table.Claims) != len(order) || len(table.Shared) != 1 {
			t.Errorf("%s: the node table is %+v", part, table)
		}
		if _, err := os.Stat("/sys/fs/bpf/gresnet/sharers"); err != nil {
			t.Errorf("%s: the HCA is not guarded: %v", part, err)
		}
		for i, n := range order {
			if !closed(t, hca) {
				t.Errorf("%s: the node's device node is open, and %d jobs have the HCA", part, len(order)-i)
			}
			vm.Must(t, "epilog", slotJob(n))
		}
		if closed(t, hca) {
			t.Errorf("%s: the node's device node stays closed", part)
		}
		if _, err := os.Stat("/sys/fs/bpf/gresnet/devices"); err == nil {
			t.Errorf("%s: the guard is there and no job has an HCA", part)
		}
		vm.Same(t, before)
		if shared := vm.Table(t).Shared; len(shared) > 0 {
			t.Errorf("%s: the node table still has %+v", part, shared)
		}
	}
}

func TestWhatAJobWithASlotHasSentByItsOwnInterfaceIsReadWhileItRuns(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	hca := inSlots(t, "macvlan", "network = \"10.128.0.0/16\"\n")
	before := vm.Picture(t)
	vm.Must(t, "prolog", slotJob(0))
	vm.Must(t, "prolog", slotJob(3))
	vm.Run(t, fmt.Sprintf("nsenter --net=%s/netns ping -c 3 -s 1000 10.128.0.16", slotLease(3)))
	out, code := vm.Command(t, "gresnet metrics")
	sent := func(job, counter string) int {
		m := regexp.MustCompile(`(?m)^gresnet_running_job_ip_` + counter + `_bytes_total\{jobid="` + job + `",user="alice",device="` + hca + `",interface="roce0"\} ([0-9]+)$`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("exit %d: it says nothing of job %s:\n%s", code, job, out)
		}
		return vm.Atoi(m[1])
	}
	if sent("900303", "sent") < 3000 || sent("900300", "received") < 3000 {
		t.Errorf("exit %d:\n%s", code, out)
	}
	// The kernel takes the question about queue pairs, for which the stub's driver counts nothing.
	if !strings.Contains(out, "gresnet_running_job_hcas_unread 0\n") || strings.Contains(out, "\ngresnet_running_job_sent_bytes_total{") {
		t.Errorf("it does not answer, or counts for all jobs what one has sent:\n%s", out)
	}
	vm.Must(t, "epilog", slotJob(3))
	vm.Must(t, "epilog", slotJob(0))
	vm.Same(t, before)
}

// The second slave is no HCA's, as where mlx5 has made one HCA of two functions.
func TestSlotsOfAnHCAThatIsABondStandOnTheBondAndItComesBackExactly(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	vm.Run(t, `modprobe bonding max_bonds=0; ip link add slave1 type dummy; ip link add bond7 type bond mode active-backup miimon 100
for i in roce0 slave1; do ip link set $i down; ip addr flush dev $i; ip link set $i master bond7; ip link set $i up; done
ip addr add 10.200.0.2/24 dev bond7; ip link set bond7 up; ip link set bond7 type bond active_slave roce0`)
	t.Cleanup(func() {
		vm.Run(t, "ip link set roce0 nomaster; ip link del bond7; ip link del slave1; modprobe -r bonding\n"+vm.GiveAddresses)
	})
	for _, part := range []string{"macvlan", "ipvlan"} {
		hca := inSlots(t, part, "network = \"10.128.0.0/16\"\n")
		before := vm.Picture(t)
		for _, n := range []int{0, 5} {
			vm.Must(t, "prolog", slotJob(n))
			links := vm.Run(t, fmt.Sprintf("nsenter --net=%s/netns ip -d -br addr", slotLease(n)))
			if want := fmt.Sprintf("10.128.0.%d/16", 2*8+n); !regexp.MustCompile(`(?m)^bond7@.*` + regexp.QuoteMeta(want)).MatchString(links) {
				t.Errorf("%s: job %d has no bond7 with %s:\n%s", part, n, want, links)
			}
			gid := strings.TrimSpace(vm.Run(t, fmt.Sprintf("cat /sys/class/infiniband/%s/ports/1/gids/%s", hca, exported(t, n, "NCCL_IB_GID_INDEX"))))
			if want := fmt.Sprintf("0000:0000:0000:0000:0000:ffff:0a80:%04x", 2*8+n); gid != want {
				t.Errorf("%s: the GID of job %d is %s, want %s", part, n, gid, want)
			}
		}
		if part == "macvlan" {
			vm.KillAnywhere(t, slotJob(2), func() bool { return !t.Failed() })
		}
		for _, n := range []int{0, 5} {
			vm.Must(t, "epilog", slotJob(n))
		}
		vm.Same(t, before)
	}
}

// Somebody has removed the lease, so no epilog opens them. test/model found it: RELEASE_OPENS.
func TestTheReleaseOfTheLastSlotOfAnHCAOpensItsDeviceNodes(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	hca := inSlots(t, "shared", "")
	before := vm.Picture(t)
	vm.Must(t, "prolog", slotJob(0))
	vm.Run(t, vm.SaveTable)
	vm.Must(t, "epilog", slotJob(0))
	vm.Run(t, vm.PutTable+"; chmod 600 /dev/infiniband/"+vm.UverbsOf(t, hca))
	if out, code := vm.ByHand(t, "epilog", slotJob(0)); code != 2 || !strings.Contains(out, "its lease was removed") {
		t.Errorf("exit %d: %s", code, out)
	}
	if !closed(t, hca) {
		t.Error("the device node of a quarantined slot is open")
	}
	if out, code := vm.Command(t, "gresnet release "+hca); code != 0 || out != "" {
		t.Errorf("release: exit %d: %s", code, out)
	}
	if closed(t, hca) {
		t.Error("the device node stays closed")
	}
	if shared := vm.Table(t).Shared; len(shared) > 0 {
		t.Errorf("the node table still has %+v", shared)
	}
	vm.Same(t, before)
}

func TestAKillAnywhereLosesNothingOfASlot(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	hca := inSlots(t, "macvlan", "network = \"10.128.0.0/16\"\n")
	first := vm.Picture(t)
	for _, others := range []bool{false, true} {
		if others {
			vm.Must(t, "prolog", slotJob(1))
		}
		before := vm.Picture(t)
		kills := vm.KillAnywhere(t, slotJob(0), func() bool { vm.Same(t, before); return !t.Failed() && closed(t, hca) == others })
		t.Logf("others: %t, %d kills", others, kills)
	}
	vm.Must(t, "epilog", slotJob(1))
	vm.Same(t, first)
}

func TestASlotThatTheNodeCannotMakeIsFoundByCheckAndRefusedBeforeAnythingChanges(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	inSlots(t, "macvlan", "network = \"10.128.0.0/24\"\n")
	for _, c := range []struct{ prepare, undo, want string }{
		{"ip link add odd0 link roce0 type ipvlan", "ip link del odd0", "roce0 carries odd0 of kind ipvlan, and the kernel makes no macvlan beside it"},
		{"ip link set roce0 down", vm.GiveAddresses, "roce0 is down, and so would a macvlan of it be"},
		{"ip link add odd0 type bridge; ip link set roce0 master odd0", "ip link set roce0 nomaster; ip link del odd0;" + vm.GiveAddresses, "roce0 belongs to odd0, and the kernel makes no macvlan of it"},
		{"modprobe bonding max_bonds=0; ip link add odd0 type bond; for i in 0 1; do ip link set roce$i down; ip link set roce$i master odd0; done", "for i in 0 1; do ip link set roce$i nomaster; done; ip link del odd0; modprobe -r bonding;" + vm.GiveAddresses, "roce0 and roce1 belong to odd0, and are interfaces of two HCAs, which the bond does not join"},
		{"ip -4 addr flush dev roce0", vm.GiveAddresses, "roce0 has no IPv4 address, from which the addresses of slots follow"},
		{"ip -4 addr flush dev roce0; ip addr add 10.200.0.40/24 dev roce0", "ip addr del 10.200.0.40/24 dev roce0;" + vm.GiveAddresses, "network 10.128.0.0/24 has no address for slot 0 of 8 on roce0, whose address is 10.200.0.40/24"},
		{"for n in {1..16}; do ip addr add 10.250.0.$n/32 dev roce0; done; until [ $(cat /sys/class/infiniband/*/ports/1/gids/* 2>/dev/null | grep -c 0afa:00) = 32 ]; do sleep 0.1; done", "for n in {1..16}; do ip addr del 10.250.0.$n/32 dev roce0; done", "has room for 64 GIDs: its own interface needs "},
	} {
		vm.Run(t, c.prepare)
		before := vm.Picture(t)
		check, _ := vm.Try(vm.Repo() + "/bin/gresnet check 2>&1")
		if !strings.Contains(check, c.want) {
			t.Errorf("check does not say %q:\n%s", c.want, check)
		}
		out, code := vm.ByHand(t, "prolog", slotJob(0))
		if code != 1 || !strings.Contains(out, c.want) {
			t.Errorf("want %q, got exit %d: %s", c.want, code, out)
		}
		vm.Same(t, before)
		vm.Run(t, c.undo)
	}
	if claims := vm.Table(t).Claims; len(claims) > 0 {
		t.Errorf("the node table has claims: %+v", claims)
	}
}

// Each round, four jobs take their slots while four others return theirs.
func TestSlotsOfOneHCAAreTakenAndReturnedAtOnce(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	hca := inSlots(t, "macvlan", "network = \"10.128.0.0/16\"\n")
	before := vm.Picture(t)
	const atOnce = 4
	run := func(program string, first int, all *sync.WaitGroup) {
		for n := first; n < first+atOnce; n++ {
			all.Go(func() {
				if out, code := vm.ByHand(t, program, slotJob(n)); code != 0 || out != "" {
					t.Errorf("%s of job %d: exit %d: %s", program, n, code, out)
				}
			})
		}
	}
	rounds := vm.Rounds(6, 100)
	var all sync.WaitGroup
	run("prolog", 0, &all)
	all.Wait()
	for round := range rounds {
		leave := round % 2 * atOnce
		run("epilog", leave, &all)
		run("prolog", atOnce-leave, &all)
		all.Wait()
		if t.Failed() {
			t.Fatalf("in round %d:\n%s", round, vm.Run(t, vm.ListTable))
		}
		if !closed(t, hca) {
			t.Errorf("round %d: the node's device node is open, and four jobs have the HCA", round)
		}
	}
	run("epilog", rounds%2*atOnce, &all)
	all.Wait()
	vm.Same(t, before)
}

func TestSlotsAreForSharedModeAlone(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	inSlots(t, "macvlan", "")
	before := vm.Picture(t)
	const want = `part = "macvlan" is for the shared RDMA netns mode, and the node is in exclusive mode`
	if check, _ := vm.Try(vm.Repo() + "/bin/gresnet check 2>&1"); !strings.Contains(check, want) {
		t.Errorf("check does not say %q:\n%s", want, check)
	}
	if out, code := vm.ByHand(t, "prolog", slotJob(0)); code != 1 || !strings.Contains(out, want) {
		t.Errorf("exit %d: %s", code, out)
	}
	vm.Same(t, before)
}
