package lease

import (
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// As an HCA of a driver that makes no interface, and can be moved.
func TestHCAsWithoutInterfacesGoToAJobAndBack(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.WithHCAs(t, "nmin=2")
	vm.Shape{HCAs: vm.HCAs(t), Ports: 1}.GoesToAJobAndBack(t)
}

// As EFA, whose driver has no disassociate_ucontext.
func TestHCAsThatNobodyCanMoveGoToJobsInSharedModeAlone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.WithHCAs(t, "nmin=2 disassoc=N")
	shape := vm.Shape{HCAs: vm.HCAs(t), Ports: 1}
	if vm.IsExclusive(t) {
		shape.IsRefused(t, "its driver cannot be moved")
		return
	}
	shape.GoesToAJobAndBack(t)
}

// As a ConnectX-3, or a ConnectX in multiport RoCE mode.
func TestRoCEHCAsOfTwoPortsGoToAJobWithTheInterfacesOfBothAndBack(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	twoPorts(t, "nroce=2")
}

func TestInfiniBandHCAsOfTwoPortsGoToAJobWithTheInterfacesOfBothAndBack(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	twoPorts(t, "nib=2")
}

func twoPorts(t *testing.T, hcas string) {
	t.Helper()
	vm.WithHCAs(t, hcas+" ports=2")
	vm.Shape{HCAs: vm.HCAs(t), Ports: 2, Interfaces: 2, UMAD: 2}.GoesToAJobAndBack(t)
}

// As Omni-Path: programs open /dev/hfi1_N, and its driver has no disassociate_ucontext.
func TestHCAsOfOmniPathGoToJobsWithTheirNodesBesideUverbs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.WithHCAs(t, "nib=2 hfi=Y name=hfi1_%d disassoc=N")
	vm.Run(t, "chmod 666 /dev/hfi1_*; "+vm.Repo()+"/bin/gresnet close")
	restricted := func(when string) {
		t.Helper()
		if now := vm.Run(t, "stat -c '%a %U' /dev/hfi1_*"); now != "600 root\n600 root\n" {
			t.Errorf("%s they are\n%s", when, now)
		}
	}
	restricted("before the first job")
	shape := vm.Shape{HCAs: vm.HCAs(t), Ports: 1, Interfaces: 1, UMAD: 1}
	if vm.IsExclusive(t) {
		shape.IsRefused(t, "its driver cannot be moved")
		restricted("after a prolog that failed")
		return
	}
	shape.GoesToAJobAndBack(t)
	restricted("after jobs")
	job := vm.Submit(t, "alice", "--gres=gpu:1", "srun bash -c 'exec 3<>/dev/hfi1_0 && echo opened; exec 3<>/dev/hfi1_1 && echo both; sleep 1000'")
	vm.Eventually(t, "the job has opened its own", func() bool {
		out, _ := vm.Try("cat /tmp/" + job + ".out")
		return strings.Contains(out, "opened\n") && strings.Contains(out, "hfi1_1")
	})
	if out := vm.Run(t, "cat /tmp/"+job+".out"); strings.Contains(out, "both") {
		t.Errorf("the job has opened another one's, too: %s", out)
	}
	for _, user := range []string{"alice", "bob"} {
		if out, err := vm.TryAs(user, "exec 3<>/dev/hfi1_0"); err == nil || !strings.Contains(out, "not permitted") && !strings.Contains(out, "denied") {
			t.Errorf("%s, outside of the job, opens it: %v %s", user, err, out)
		}
	}
	vm.Cancel(t, job)
	restricted("after the last job")
	vm.Must(t, "prolog", cleanupJob)
	vm.Run(t, "umount -l /run/gresnet/jobs/900050/netns /run/gresnet/jobs/900050/dev; rm -r /run/gresnet/jobs/900050")
	if out, code := vm.Command(t, "gresnet cleanup"); code != 2 {
		t.Errorf("the cleanup after a lease was removed by hand: exit %d: %s", code, out)
	}
	if out, code := vm.Command(t, "gresnet release hfi1_0"); code != 0 {
		t.Errorf("the release: exit %d: %s", code, out)
	}
	restricted("after a job whose lease was removed by hand")
	if _, err := os.Lstat("/sys/fs/bpf/gresnet/devices"); !os.IsNotExist(err) {
		t.Errorf("the guard of the job whose lease was removed by hand is still there: %v", err)
	}
}

// As where udev names HCAs after their place. A job gets none of these.
func TestTheNodeOfAnOmniPathHCAThatHasAnotherNameIsRestrictedIfTheSiteListsTheHCA(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.WithHCAs(t, "nib=2 hfi=Y name=hfi1_%d disassoc=N")
	vm.Run(t, "rdma dev set hfi1_0 name ibp1s0; chmod 666 /dev/hfi1_*")
	for _, c := range []struct{ listed, now string }{{"hfi1_1", "666 root\n600 root\n"}, {"ibp1s0", "600 root\n600 root\n"}} {
		vm.WriteConfig(t, "[slurm]\nsource = [\"gpu\"]\n[[hca]]\nindex = 0\nmatch = \"rdma="+c.listed+"\"\ngpus = [0]\n")
		vm.Run(t, vm.Repo()+"/bin/gresnet close")
		if now := vm.Run(t, "stat -c '%a %U' /dev/hfi1_*"); now != c.now {
			t.Errorf("with %s listed they are\n%s", c.listed, now)
		}
	}
	before := vm.Picture(t)
	out, code := vm.ByHand(t, "prolog", "SLURM_JOB_ID=900190 SLURM_NODELIST=node1 SLURM_JOB_GPUS=0")
	vm.NodesFault(t, out, code, "ibp1s0 has another name than its device node /dev/hfi1_N")
	vm.Same(t, before)
}
