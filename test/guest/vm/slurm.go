package vm

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// scontrolTime is what an emulated machine may need for scontrol, a minute at most.
var scontrolTime = fmt.Sprintf("timeout = %q\n", min(Slow(30*time.Second), time.Minute))

// Config is the node's configuration, unless a test writes another one.
var Config = "\n[slurm]\ngres = [\"nic\"]\nsource = [\"gpu\", \"scontrol\"]\n" + scontrolTime

// AskScontrol is a configuration by which slurmctld alone is asked.
var AskScontrol = "[slurm]\nsource = [\"scontrol\"]\n" + scontrolTime

var slurmUp sync.Once

// Slurm starts munge, slurmctld and slurmd with gresnet, once, and gives the
// node something to lose: addresses and routes on every HCA's interface.
func Slurm(t *testing.T) {
	t.Helper()
	slurmUp.Do(func() {
		WriteConfig(t, Config)
		ProbeProgram(t)
		// The tests of another folder may have run in this VM before.
		Run(t, "if [ ! -e /run/dressed ]; then "+Dress+"touch /run/dressed; fi")
		Run(t, Repo()+"/test/vm/slurm-up --gresnet >&2")
	})
	// What a node is like whose first job has begun: see [access].
	Run(t, Repo()+"/bin/gresnet close")
	// A test that failed half way must not take the next ones with it.
	Run(t, "squeue -h -o %A | xargs -r scancel; sinfo -h -N -t drain -o %N | xargs -rI{} scontrol update nodename={} state=resume")
	Eventually(t, "every node is idle", func() bool {
		out, _ := Try("sinfo -h -o %T")
		return strings.TrimSpace(out) == "idle"
	})
}

// WriteConfig writes the node's configuration. What it does not say is as in Complete.
func WriteConfig(t *testing.T, text string) {
	t.Helper()
	Run(t, "mkdir -p /etc/gresnet")
	if err := os.WriteFile("/etc/gresnet/gresnet.toml", []byte(Complete(text)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Complete returns a configuration by which a job has the HCAs of its GPUs and no way out, and free HCAs are closed, as far as
// a text says nothing else. The defaults are a site's: slurmctld is asked, jobs have a way out, and free HCAs are open.
func Complete(text string) string {
	for _, c := range []struct{ table, key, line string }{
		{"slurm", "source", "source = [\"gpu\"]"}, {"access", "host", "host = \"closed\""}, {"uplink", "kind", "kind = \"none\""},
	} {
		table := regexp.MustCompile(`(?m)^\[` + c.table + `\]\n`)
		own := "\n# said by no test\n[" + c.table + "]\n" + c.line + "\n"
		if strings.Contains(text, own) && len(table.FindAllString(text, 2)) > 1 {
			text = strings.Replace(text, own, "", 1) // a test has written more to what it has read
		}
		at := table.FindStringIndex(text)
		if at == nil {
			text += own
			continue
		}
		said, _, _ := strings.Cut(text[at[1]:], "\n[")
		if !regexp.MustCompile(`(?m)^` + c.key + ` *=`).MatchString(said) {
			text = text[:at[1]] + c.line + "\n" + text[at[1]:]
		}
	}
	return text
}

// Dress configures the HCAs' interfaces as a site would.
const Dress = `
# IPoIB interfaces are made under the lowest free name: let theirs be others.
if [ -e /sys/class/net/ib1 ]; then
	ip link set ib0 name swap0
	ip link set ib1 name ib0
	ip link set swap0 name ib1
fi
` + GiveAddresses

// GiveAddresses gives what is missing of what the interfaces have.
const GiveAddresses = `
n=1
for i in $(ls /sys/class/net | grep -E '^(roce|ib|en.*np)'); do
	ip link set $i up
	ip addr replace 10.$n.0.2/24 dev $i
	ip addr replace 10.$n.0.9/24 dev $i
	ip -6 addr replace fd00:$n::2/64 dev $i nodad
	ip route replace 172.16.$n.0/24 via 10.$n.0.1 dev $i metric 77 proto static
	ip -6 route replace fd01:$n::/64 via fd00:$n::1 dev $i metric 77 proto static
	n=$((n + 1))
done
for i in $(ls /sys/class/net | grep -E '^(roce|en.*np)'); do ip link set $i mtu 9000; done
while ip -6 addr | grep -q tentative; do sleep 0.1; done
`

func NoLease() bool {
	out, err := Try("ls -A /run/gresnet/jobs")
	return err == nil && strings.TrimSpace(out) == ""
}

// ClaimedUverbs returns the node's uverbs device of the one HCA that is claimed.
func ClaimedUverbs(t *testing.T) string {
	t.Helper()
	name := strings.TrimSpace(Jq(t, ".claims[].name"))
	return UverbsOf(t, name)
}

// UverbsOf returns the uverbs device of an RDMA device, wherever that is.
func UverbsOf(t *testing.T, name string) string {
	t.Helper()
	return strings.TrimSpace(Run(t, "grep -lx "+name+" /sys/class/infiniband_verbs/uverbs*/ibdev | cut -d/ -f5"))
}

// Submit submits a batch job and returns its id.
func Submit(t *testing.T, user, options, script string) string {
	t.Helper()
	return strings.TrimSpace(As(t, user, "sbatch --parsable -o /tmp/%j.out "+options+" --wrap "+Quote(script)))
}

// ShortCredentials starts Slurm with credentials that expire soon, for the time of a test. A
// requeued job waits until its old one has expired (AuthInfo=cred_expire); if it is made to start
// before that, slurmd takes it for a job that it knows, and runs no prolog.
func ShortCredentials(t *testing.T) {
	t.Helper()
	RestartSlurm(t, fmt.Sprintf("--conf AuthInfo=cred_expire=%.0f", Slow(5*time.Second).Seconds()))
	t.Cleanup(func() { RestartSlurm(t) })
}

func HasStep(job string) bool {
	out, err := Try("squeue -h -s -j " + job + " -o %i")
	return err == nil && strings.Contains(out, job+".0")
}

func Cancel(t *testing.T, job string) {
	t.Helper()
	Run(t, "scancel "+job)
	Ended(t, job)
}

// Ended waits until Slurm is through with a job, its epilog included.
func Ended(t *testing.T, job string) {
	t.Helper()
	Eventually(t, "job "+job+" has ended", func() bool {
		out, _ := Try("squeue -h -j " + job + " -o %T")
		return strings.TrimSpace(out) == ""
	})
	Eventually(t, "the lease of job "+job+" is gone", func() bool {
		_, err := os.Lstat("/run/gresnet/jobs/" + job)
		return os.IsNotExist(err)
	})
}

const (
	plugstack  = "/etc/slurm/plugstack.conf"
	WhereAmI   = "readlink /proc/self/ns/net"
	NoticeText = "gresnet: this job's HCAs are inside its srun steps"
)

// RestartSlurm starts Slurm again, as its configuration says by now.
func RestartSlurm(t *testing.T, options ...string) {
	t.Helper()
	Run(t, Repo()+"/test/vm/slurm-up --gresnet "+strings.Join(options, " ")+" >&2")
}

// PluginArguments has plugstack.conf say something for the time of a test.
// slurmstepd reads it for each step.
func PluginArguments(t *testing.T, arguments string) {
	t.Helper()
	line, err := os.ReadFile(plugstack)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(plugstack, line, 0o644); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(plugstack, []byte(strings.TrimSpace(string(line))+" "+arguments+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Script runs a batch job to its end and returns what it wrote.
func Script(t *testing.T, options, text string) string {
	t.Helper()
	job := Submit(t, "alice", options, text)
	Ended(t, job)
	return Run(t, "cat /tmp/"+job+".out")
}

// WithSource has a configuration for the time of a test, after which Slurm is as it was.
func WithSource(t *testing.T, text string) {
	t.Helper()
	WriteConfig(t, text)
	t.Cleanup(func() {
		Run(t, "scancel -u alice")
		Eventually(t, "the epilogs have run", NoLease)
		WriteConfig(t, Config)
	})
}

// ByIndex returns the names of the HCAs by Slurm's index, where the site lists none.
func ByIndex(t *testing.T) []string {
	t.Helper()
	return strings.Fields(Run(t, Repo()+"/bin/gresnet scan --json | jq -r '.hcas | sort_by(.index)[].name'"))
}

// WithoutPCI returns the names of the HCAs that are no PCI functions.
func WithoutPCI(t *testing.T) []string {
	t.Helper()
	return strings.Fields(Run(t, `for d in /sys/class/infiniband/*; do case $(readlink -f $d/device) in */platform/*) basename $d ;; esac; done`))
}

// Claims returns the names of the HCAs that a job has claimed, by their indices.
func Claims(t *testing.T, job string) string {
	t.Helper()
	return strings.Join(strings.Fields(Run(t, Repo()+"/bin/gresnet status --json | jq -r '[.hcas[] | select(.claim.job == "+job+")] | sort_by(.index)[] | \"\\(.index)=\\(.name)\"'")), " ")
}

func Atoi(text string) (n int) {
	fmt.Sscan(text, &n)
	return n
}

const Guarded = "\n[access]\numad = true\nguard = \"required\"\n"
