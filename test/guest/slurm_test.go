package guest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// An emulated machine may need longer for scontrol than it has by default.
const config = `
[slurm]
gres    = ["nic"]
source  = ["gpu", "scontrol"]
timeout = "30s"
`

// askScontrol is a configuration of which slurmctld alone answers.
const askScontrol = "[slurm]\nsource = [\"scontrol\"]\ntimeout = \"30s\"\n"

var slurmUp sync.Once

// slurm starts munge, slurmctld and slurmd with gresnet, once, and gives the
// node something to lose: addresses and routes on every HCA's interface.
func slurm(t *testing.T) {
	t.Helper()
	needVM(t)
	slurmUp.Do(func() {
		writeConfig(t, config)
		run(t, dress)
		run(t, repo()+"/test/vm/slurm-up --gresnet >&2")
		probeProgram(t)
	})
	// What a node is like whose first job has begun: see [access].
	run(t, repo()+"/bin/gresnet-prolog close")
	// A test that failed half way must not take the next ones with it.
	run(t, "squeue -h -o %A | xargs -r scancel; sinfo -h -N -t drain -o %N | xargs -rI{} scontrol update nodename={} state=resume")
	eventually(t, "every node is idle", func() bool {
		out, _ := try("sinfo -h -o %T")
		return strings.TrimSpace(out) == "idle"
	})
}

func writeConfig(t *testing.T, text string) {
	t.Helper()
	run(t, "mkdir -p /etc/gresnet")
	if err := os.WriteFile("/etc/gresnet/gresnet.toml", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// dress configures the HCAs' interfaces as a site would.
const dress = `
# IPoIB interfaces are made under the lowest free name: let theirs be others.
if [ -e /sys/class/net/ib1 ]; then
	ip link set ib0 name swap0
	ip link set ib1 name ib0
	ip link set swap0 name ib1
fi
` + giveAddresses

// giveAddresses gives what is missing of what the interfaces have.
const giveAddresses = `
n=1
for i in $(ls /sys/class/net | grep -E '^(roce|ib)'); do
	ip link set $i up
	ip addr replace 10.$n.0.2/24 dev $i
	ip addr replace 10.$n.0.9/24 dev $i
	ip -6 addr replace fd00:$n::2/64 dev $i nodad
	ip route replace 172.16.$n.0/24 via 10.$n.0.1 dev $i metric 77 proto static
	ip -6 route replace fd01:$n::/64 via fd00:$n::1 dev $i metric 77 proto static
	n=$((n + 1))
done
for i in $(ls /sys/class/net | grep ^roce); do ip link set $i mtu 9000; done
while ip -6 addr | grep -q tentative; do sleep 0.1; done
`

// inside prints, in a step, what the job has.
const inside = `
echo "user $(id -un)"
echo "rdma $(rdma link | sed -n 's/^link \([^/]*\)\/.*/\1/p' | sort | xargs)"
echo "class $(ls /sys/class/infiniband | xargs)"
echo "net $(ls /sys/class/net | xargs)"
echo "dev $(ls /dev/infiniband | xargs)"
echo "addr $(ip -o addr show up scope global | awk '{print $2 "=" $4}' | sort | xargs)"
echo "route $(ip route show proto static | awk '{print $1}' | sort | xargs)"
echo "cgroup $(cat /sys/fs/cgroup/cgroup.controllers 2>&1)"
echo "hcas $GRESNET_HCAS"
echo "gids $(cat /sys/class/infiniband/*/ports/1/gids/* | grep -v -e 0000:0000:0000:0000:0000:0000:0000:0000 | sort | xargs)"
GRESNET_PROBE=/dev/infiniband /tmp/guest.test
`

// facts are the lines of inside by their first word.
func facts(out string) map[string]string {
	m := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		m[word] = rest
	}
	return m
}

func TestAJobSeesItsHCAsAndTheNodeGetsThemBack(t *testing.T) {
	slurm(t)
	names := hcas(t)
	before := picture(t)
	for _, count := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d HCAs", count), func(t *testing.T) {
			out := as(t, "alice", fmt.Sprintf("srun --gres=nic:%d bash -c %s", count, quote(inside)))
			f := facts(out)
			hcas := strings.Split(f["hcas"], ",")
			if len(hcas) != count {
				t.Fatalf("the job has HCAs %q, wanted %d:\n%s", hcas, count, out)
			}
			own := strings.Join(hcas, " ")
			if f["user"] != "alice" {
				t.Errorf("the step runs as %q", f["user"])
			}
			if mode(t) == "exclusive" {
				if f["rdma"] != own || f["class"] != own {
					t.Errorf("RDMA devices: netlink has %q, /sys has %q, wanted %q", f["rdma"], f["class"], own)
				}
			} else if all := strings.Join(names, " "); f["rdma"] != all {
				t.Errorf("RDMA devices: netlink has %q, wanted those of the node, which stay there: %q", f["rdma"], all)
			}
			for _, h := range hcas {
				if !strings.Contains(f["class"]+" ", h+" ") {
					t.Errorf("/sys/class/infiniband has %q, %s is missing", f["class"], h)
				}
			}
			if got := strings.Fields(f["dev"]); len(got) != count+1 || got[0] != "rdma_cm" {
				t.Errorf("/dev/infiniband has %q, wanted rdma_cm and %d uverbs", got, count)
			}
			if got := strings.Fields(f["net"]); len(got) != count+1 {
				t.Errorf("/sys/class/net has %q, wanted lo and %d interfaces", got, count)
			}
			if got := strings.Fields(f["addr"]); len(got) != 3*count {
				t.Errorf("addresses up: %q, wanted 3 for each of %d interfaces", got, count)
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
			eventually(t, "the epilog has run", noLease)
			same(t, before)
		})
	}
}

// gidText is the tail of the GID of an IPv4 or IPv6 address, as sysfs writes it.
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

func noLease() bool {
	out, err := try("ls -A /run/gresnet/jobs")
	return err == nil && strings.TrimSpace(out) == ""
}

func TestNobodyElseOpensAClaimedHCA(t *testing.T) {
	slurm(t)
	before := picture(t)
	job := submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
	eventually(t, "the step runs", func() bool { return hasStep(job) })
	claimed := claimedUverbs(t)
	for _, user := range []string{"alice", "bob"} {
		out, err := tryAs(user, "exec 3<>/dev/infiniband/"+claimed)
		if err == nil || !strings.Contains(out, "not permitted") && !strings.Contains(out, "denied") {
			t.Errorf("%s, outside of the job, opens %s: %v %s", user, claimed, err, out)
		}
		if out, err := tryAs(user, "ls /run/gresnet/jobs"); err == nil {
			t.Errorf("%s can list the leases: %s", user, out)
		}
	}
	cancel(t, job)
	same(t, before)
}

// claimedUverbs is the node's uverbs device of the one HCA that is claimed.
func claimedUverbs(t *testing.T) string {
	t.Helper()
	name := strings.TrimSpace(run(t, "jq -r '.claims[].name' /run/gresnet/node.json"))
	return uverbsOf(t, name)
}

// uverbsOf is the uverbs device of an RDMA device, wherever that is.
func uverbsOf(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(run(t, "grep -lx "+name+" /sys/class/infiniband_verbs/uverbs*/ibdev | cut -d/ -f5"))
}

// submit submits a batch job and returns its id.
func submit(t *testing.T, user, options, script string) string {
	t.Helper()
	return strings.TrimSpace(as(t, user, "sbatch --parsable -o /tmp/%j.out "+options+" --wrap "+quote(script)))
}

func hasStep(job string) bool {
	out, err := try("squeue -h -s -j " + job + " -o %i")
	return err == nil && strings.Contains(out, job+".0")
}

func cancel(t *testing.T, job string) {
	t.Helper()
	run(t, "scancel "+job)
	ended(t, job)
}

// ended waits until Slurm is through with a job, its epilog included.
func ended(t *testing.T, job string) {
	t.Helper()
	eventually(t, "job "+job+" has ended", func() bool {
		out, _ := try("squeue -h -j " + job + " -o %T")
		return strings.TrimSpace(out) == ""
	})
	eventually(t, "the lease of job "+job+" is gone", func() bool {
		_, err := os.Lstat("/run/gresnet/jobs/" + job)
		return os.IsNotExist(err)
	})
}

func TestTwoJobsAtOnceGetDifferentHCAs(t *testing.T) {
	slurm(t)
	before := picture(t)
	a := submit(t, "alice", "--gres=nic:1", "srun sleep 1000")
	b := submit(t, "bob", "--gres=nic:2", "srun sleep 1000")
	eventually(t, "both steps run", func() bool { return hasStep(a) && hasStep(b) })
	claims := strings.Fields(run(t, `jq -r '.claims[] | "\(.job):\(.name)"' /run/gresnet/node.json`))
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
	// The extern steps have marked the leases, by which a sweep knows live jobs.
	run(t, "ls /run/gresnet/jobs/"+a+"/extern /run/gresnet/jobs/"+b+"/extern")
	if out, code := command(t, "gresnet-epilog sweep "+a); code != 1 || !strings.Contains(out, "is its step") {
		t.Errorf("sweep of a live job: exit %d: %s", code, out)
	}
	if count[a] != 1 || count[b] != 2 {
		t.Errorf("claims: %q, wanted one of job %s and two of job %s", claims, a, b)
	}
	cancel(t, a)
	cancel(t, b)
	same(t, before)
}

func TestACancelledStepLeavesACleanNode(t *testing.T) {
	slurm(t)
	before := picture(t)
	job := submit(t, "alice", "--gres=nic:2", "srun sleep 1000")
	eventually(t, "the step runs", func() bool { return hasStep(job) })
	run(t, "scancel "+job+".0")
	ended(t, job)
	same(t, before)
}

func TestARequeuedJobStartsAnewWithItsHCAs(t *testing.T) {
	slurm(t)
	before := picture(t)
	job := submit(t, "alice", "--requeue --gres=nic:1", "srun sleep 1000")
	eventually(t, "the step runs", func() bool { return hasStep(job) })
	run(t, "scontrol requeue "+job)
	eventually(t, "the lease is the second run's", func() bool {
		out, _ := try("head -n 3 /run/gresnet/jobs/" + job + "/env")
		return strings.Contains(out, "GRESNET_RUN=1")
	})
	eventually(t, "the step runs again", func() bool { return hasStep(job) })
	cancel(t, job)
	same(t, before)
}

func TestAJobWithoutAnHCAHasNoLease(t *testing.T) {
	slurm(t)
	before := picture(t)
	out := as(t, "alice", "srun bash -c 'readlink /proc/self/ns/net; echo hcas $GRESNET_HCAS'")
	if want := run(t, "readlink /proc/self/ns/net") + "hcas\n"; out != want {
		t.Errorf("the step says %q, wanted %q", out, want)
	}
	same(t, before)
}

func TestOnlyStepsAreInTheJobsNamespace(t *testing.T) {
	slurm(t)
	before := picture(t)
	job := submit(t, "alice", "--gres=nic:1", "readlink /proc/self/ns/net; srun readlink /proc/self/ns/net; srun readlink /proc/self/ns/net")
	ended(t, job)
	lines := strings.Fields(run(t, "grep ^net: /tmp/"+job+".out"))
	host := strings.TrimSpace(run(t, "readlink /proc/self/ns/net"))
	if len(lines) != 3 || lines[0] != host || lines[1] == host || lines[1] != lines[2] {
		t.Errorf("namespaces of the batch script and of two steps: %q, the node's is %s", lines, host)
	}
	same(t, before)
}
