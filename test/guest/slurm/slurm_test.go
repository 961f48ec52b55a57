package slurm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// inside prints, in a step, what the job has.
const inside = `
echo "user $(id -un)"
echo "rdma $(rdma link | sed -n 's/^link \([^/]*\)\/.*/\1/p' | sort | xargs)"
echo "class $(ls /sys/class/infiniband | xargs)"
echo "verbs $(cat /sys/class/infiniband_verbs/*/ibdev | sort | xargs) abi $(cat /sys/class/infiniband_verbs/abi_version)"
echo "mad $(cat /sys/class/infiniband_mad/*/ibdev | sort -u | xargs)"
echo "net $(ls /sys/class/net | xargs)"
echo "dev $(ls /dev/infiniband | xargs)"
echo "addr $(ip -o addr show up scope global | awk '{print $2 "=" $4}' | sort | xargs)"
echo "route $(ip route show proto static | awk '{print $1}' | sort | xargs)"
echo "cgroup $(cat /sys/fs/cgroup/cgroup.controllers 2>&1)"
echo "hcas $GRESNET_HCAS"
echo "gids $(cat /sys/class/infiniband/*/ports/1/gids/* | grep -v -e 0000:0000:0000:0000:0000:0000:0000:0000 | sort | xargs)"
GRESNET_PROBE=/dev/infiniband /tmp/guest.test
`

// facts returns the lines of inside by their first word.
func facts(out string) map[string]string {
	m := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		m[word] = rest
	}
	return m
}

func TestAJobSeesItsHCAsAndTheNodeGetsThemBack(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke, vm.EverySlurm)
	vm.Slurm(t)
	names := vm.HCAs(t)
	before := vm.Picture(t)
	for _, count := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d HCAs", count), func(t *testing.T) {
			out := vm.As(t, "alice", fmt.Sprintf("srun --gres=nic:%d bash -c %s", count, vm.Quote(inside)))
			f := facts(out)
			hcas := strings.Split(f["hcas"], ",")
			if len(hcas) != count {
				t.Fatalf("the job has HCAs %q, wanted %d:\n%s", hcas, count, out)
			}
			own := strings.Join(hcas, " ")
			if f["user"] != "alice" {
				t.Errorf("the step runs as %q", f["user"])
			}
			if vm.Mode(t) == "exclusive" {
				if f["rdma"] != own {
					t.Errorf("RDMA devices: netlink has %q, wanted %q", f["rdma"], own)
				}
			} else if all := strings.Join(names, " "); f["rdma"] != all {
				t.Errorf("RDMA devices: netlink has %q, wanted those of the node, which stay there: %q", f["rdma"], all)
			}
			if f["class"] != own || f["verbs"] != own+" abi 6" || f["mad"] != own {
				t.Errorf("/sys/class has infiniband %q, infiniband_verbs %q, infiniband_mad %q, wanted %q", f["class"], f["verbs"], f["mad"], own)
			}
			if got := strings.Fields(f["dev"]); len(got) != count || !strings.HasPrefix(f["dev"], "uverbs") {
				t.Errorf("/dev/infiniband has %q, wanted %d uverbs", got, count)
			}
			if got := strings.Fields(f["net"]); len(got) != count+2 || !slices.Contains(got, "eth0") {
				t.Errorf("/sys/class/net has %q, wanted eth0, lo and %d interfaces", got, count)
			}
			if got := strings.Fields(f["addr"]); len(got) != 3*count+1 || !slices.Contains(got, "eth0=192.0.2.1/24") {
				t.Errorf("addresses up: %q, wanted 3 for each of %d interfaces, and eth0's", got, count)
			}
			if got := strings.Fields(f["route"]); len(got) != count {
				t.Errorf("static routes: %q, wanted %d", got, count)
			}
			if !strings.Contains(f["cgroup"], "memory") {
				t.Errorf("cgroup.controllers: %q", f["cgroup"])
			}
			if strings.Count(out, ": context") != count {
				t.Errorf("not every uverbs device answered:\n%s", out)
			}
			for _, a := range strings.Fields(f["addr"]) {
				name, addr, _ := strings.Cut(a, "=")
				if strings.HasPrefix(name, "roce") && !strings.Contains(f["gids"], gidText(addr)) {
					t.Errorf("the GID of %s is missing: %s", a, f["gids"])
				}
			}
			vm.Eventually(t, "the epilog has run", vm.NoLease)
			vm.Same(t, before)
		})
	}
}

// gidText returns the tail of the GID of an IPv4 or IPv6 address, as sysfs writes it.
func gidText(prefix string) string {
	addr, _, _ := strings.Cut(prefix, "/")
	var a, b, c, d int
	if n, _ := fmt.Sscanf(addr, "%d.%d.%d.%d", &a, &b, &c, &d); n == 4 {
		return fmt.Sprintf("ffff:%02x%02x:%02x%02x", a, b, c, d)
	}
	var n, host int
	fmt.Sscanf(addr, "fd00:%x::%x", &n, &host)
	return fmt.Sprintf("fd00:%04x:0000:0000:0000:0000:0000:%04x", n, host)
}

func TestNobodyElseOpensAClaimedHCA(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	job := vm.Submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
	vm.Eventually(t, "the step runs", func() bool { return vm.HasStep(job) })
	claimed := vm.ClaimedUverbs(t)
	for _, user := range []string{"alice", "bob"} {
		out, err := vm.TryAs(user, "exec 3<>/dev/infiniband/"+claimed)
		if err == nil || !strings.Contains(out, "not permitted") && !strings.Contains(out, "denied") {
			t.Errorf("%s, outside of the job, opens %s: %v %s", user, claimed, err, out)
		}
		if out, err := vm.TryAs(user, "ls /run/gresnet/jobs"); err == nil {
			t.Errorf("%s can list the leases: %s", user, out)
		}
	}
	vm.Cancel(t, job)
	vm.Same(t, before)
}

func TestTwoJobsAtOnceGetDifferentHCAs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	a := vm.Submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
	b := vm.Submit(t, "bob", "--gres=nic:2", "srun sleep 1000")
	vm.Eventually(t, "both steps run", func() bool { return vm.HasStep(a) && vm.HasStep(b) })
	claims := strings.Fields(vm.Jq(t, `.claims[] | "\(.job):\(.name)"`))
	holder := map[string]string{}
	count := map[string]int{}
	for _, c := range claims {
		job, name, _ := strings.Cut(c, ":")
		if other, twice := holder[name]; twice {
			t.Errorf("%s is claimed by job %s and job %s", name, other, job)
		}
		holder[name] = job
		count[job]++
	}
	// The extern steps have marked the leases, by which a cleanup knows live jobs.
	vm.Run(t, "ls /run/gresnet/jobs/"+a+"/extern /run/gresnet/jobs/"+b+"/extern")
	if out, code := vm.Command(t, "gresnet cleanup "+a); code != 1 || !strings.Contains(out, "is its step") {
		t.Errorf("cleanup of a live job: exit %d: %s", code, out)
	}
	if count[a] != 1 || count[b] != 2 {
		t.Errorf("claims: %q, wanted one of job %s and two of job %s", claims, a, b)
	}
	vm.Cancel(t, a)
	vm.Cancel(t, b)
	vm.Same(t, before)
}

func TestACancelledStepLeavesACleanNode(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	job := vm.Submit(t, "alice", "--gres=nic:2", "srun sleep 1000")
	vm.Eventually(t, "the step runs", func() bool { return vm.HasStep(job) })
	vm.Run(t, "scancel "+job+".0")
	vm.Ended(t, job)
	vm.Same(t, before)
}

func TestARequeuedJobStartsAgainWithItsHCAs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	vm.ShortCredentials(t)
	before := vm.Picture(t)
	job := vm.Submit(t, "alice", "--requeue --gres=nic:1", "srun sleep 1000")
	vm.Eventually(t, "the step runs", func() bool { return vm.HasStep(job) })
	vm.Run(t, "scontrol requeue "+job)
	vm.Eventually(t, "the lease is the second run's", func() bool {
		out, _ := vm.Try("head -n 3 /run/gresnet/jobs/" + job + "/env")
		return strings.Contains(out, "GRESNET_RUN=1")
	})
	vm.Eventually(t, "the step runs again", func() bool { return vm.HasStep(job) })
	vm.Cancel(t, job)
	vm.Same(t, before)
}

func TestAJobWithoutAnHCAHasNoLease(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	out := vm.As(t, "alice", "srun bash -c 'readlink /proc/self/ns/net; echo hcas $GRESNET_HCAS'")
	if want := vm.Run(t, "readlink /proc/self/ns/net") + "hcas\n"; out != want {
		t.Errorf("the step says %q, wanted %q", out, want)
	}
	vm.Same(t, before)
}

func TestOnlyStepsAreInTheJobsNamespace(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	job := vm.Submit(t, "alice", "--gres=nic:1", "readlink /proc/self/ns/net; srun readlink /proc/self/ns/net; srun readlink /proc/self/ns/net")
	vm.Ended(t, job)
	lines := strings.Fields(vm.Run(t, "grep ^net: /tmp/"+job+".out"))
	host := strings.TrimSpace(vm.Run(t, "readlink /proc/self/ns/net"))
	if len(lines) != 3 || lines[0] != host || lines[1] == host || lines[1] != lines[2] {
		t.Errorf("namespaces of the batch script and of two steps: %q, the node's is %s", lines, host)
	}
	vm.Same(t, before)
}
