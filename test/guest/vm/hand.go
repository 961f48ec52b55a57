package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// SlurmdEnv is what slurmd gives a Prolog of a job of alice's.
const SlurmdEnv = "env -i SLURMD_NODENAME=node1 SLURM_CONF=/etc/slurm/slurm.conf SLURM_JOB_UID=1000 SLURM_JOB_GID=1000 SLURM_JOB_USER=alice SLURM_JOB_RESTART_COUNT=0 SLURM_SCRIPT_CONTEXT=prolog_slurmd "

// longest is how long the prolog or the epilog may take: one of dozens at once waits for the others.
var longest = Slow(30 * time.Minute)

// ByHand runs the prolog or the epilog as slurmd would, and returns what it
// says and its exit code.
func ByHand(t *testing.T, program, environment string) (string, int) {
	t.Helper()
	return Begin(t, program, environment)()
}

// Begin runs a program as ByHand does, beside what the test does. The function that it returns waits for the
// program's end.
func Begin(t *testing.T, program, environment string) (end func() (string, int)) {
	type tried struct {
		out string
		err error
	}
	ended := make(chan tried, 1)
	go func() {
		out, err := tryFor(longest, "rc=0; "+SlurmdEnv+environment+" "+Repo()+"/bin/gresnet-"+program+" 2>&1 || rc=$?; echo \"exit $rc\"")
		ended <- tried{out, err}
	}()
	return func() (string, int) {
		t.Helper()
		e := <-ended
		end := strings.LastIndex(e.out, "exit ") // what it says may have an exit status in it
		if end < 0 || e.err != nil {
			t.Fatalf("%s: %v: %s", program, e.err, e.out)
		}
		return e.out[:end], Atoi(e.out[end+len("exit "):])
	}
}

// GPUConfig maps GPUs to HCAs, so that tests can say what a job gets without asking slurmctld.
const GPUConfig = `
[slurm]
source = ["gpu"]
[[hca]]
index = 0
match = "rdma=HCA0"
gpus = [0]
[[hca]]
index = 1
match = "rdma=HCA1"
gpus = [1]
`

// HCAs returns the RDMA devices of the node, the names of those that are away not among them.
func HCAs(t *testing.T) []string {
	t.Helper()
	return strings.Fields(Run(t, "rdma -j dev | jq -r '.[].ifname' | sort -V"))
}

func WithGPUs(t *testing.T) (names []string) {
	t.Helper()
	Slurm(t)
	names = HCAs(t)
	WriteConfig(t, strings.NewReplacer("HCA0", names[0], "HCA1", names[1]).Replace(GPUConfig))
	t.Cleanup(func() { WriteConfig(t, Config) })
	return names
}

const (
	DamageJob     = "SLURM_JOB_ID=900060 SLURM_JOB_GPUS=0,1"
	DamageLease   = "/run/gresnet/jobs/900060"
	DamageJournal = DamageLease + "/journal"
)

const ReturnJob = "SLURM_JOB_ID=900060 SLURM_JOB_GPUS=0,1"

// HCAsWithGPUs is AnHCAOfEachKind, and returns the names of the two HCAs.
func HCAsWithGPUs(t *testing.T) []string {
	t.Helper()
	AnHCAOfEachKind(t)
	all := HCAs(t)
	return []string{all[0], all[len(all)-1]}
}

// Jobs on the node of whose faults it is: one that runs and has HCA 0, one that ended and
// left HCA 1 quarantined, and the one that has a fault.
const (
	RunningJob = "SLURM_JOB_ID=900100"
	EndedJob   = "SLURM_JOB_ID=900101"
	FaultyJob  = "SLURM_JOB_ID=900110"
)

// NodesFault holds a prolog to fail with one line that says so, and its hint.
func NodesFault(t *testing.T, out string, code int, want string) {
	t.Helper()
	lines := regexp.MustCompile(`^gresnet-prolog: (.*)\ngresnet-prolog: hint: .+\n$`).FindStringSubmatch(out)
	if code != 1 || lines == nil || !strings.Contains(lines[1], want) {
		t.Errorf("exit %d, wanted 1, a line with %q and its hint:\n%s", code, want, out)
		return
	}
	t.Log(lines[1])
}

// WithConfig has gresnet.toml say more for the time of a test.
func WithConfig(t *testing.T, more string) {
	t.Helper()
	Slurm(t)
	WriteConfig(t, Config+more)
	t.Cleanup(func() { WriteConfig(t, Config) })
}

// SiteConfig returns a configuration beside the one that Slurm's own prologs read.
func SiteConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gresnet.toml")
	if err := os.WriteFile(path, []byte(Complete(text)), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// IsExclusive tells whether RDMA devices are moved at all.
func IsExclusive(t *testing.T) bool { return Mode(t) == "exclusive" }

// AnHCAOfEachKind maps GPU 0 to an InfiniBand and GPU 1 to a RoCE HCA.
func AnHCAOfEachKind(t *testing.T) {
	t.Helper()
	Slurm(t)
	names := HCAs(t)
	WriteConfig(t, strings.NewReplacer("HCA0", names[0], "HCA1", names[len(names)-1]).Replace(GPUConfig))
	t.Cleanup(func() { WriteConfig(t, Config) })
}

// NoDeadline gives the programs all the time of the world, for tests that trace or kill them: however slow
// the machine is, or fast its clock. A deadline that the test has written stays.
func NoDeadline(t *testing.T) {
	t.Helper()
	Run(t, `cd /etc/gresnet; grep -q '^\[deadline\]' gresnet.toml || printf '\n[deadline]\nprolog = "1h"\nepilog = "1h"\n' >>gresnet.toml`)
}

const InvariantJob = "SLURM_JOB_ID=900030 SLURM_JOB_GPUS=0,1"

// IsRefused holds the prolog of a job to a refusal that says why, and ends the job.
func IsRefused(t *testing.T, id int, job, why string) {
	t.Helper()
	job = fmt.Sprintf("SLURM_JOB_ID=%d %s", id, job)
	out, code := ByHand(t, "prolog", job)
	env, err := Try(fmt.Sprintf("cat /run/gresnet/jobs/%d/env", id))
	if code != 0 || err != nil || !strings.Contains(env, "\nGRESNET_REFUSED=") || !strings.Contains(env, why) {
		t.Errorf("job %d is not refused for %q: exit %d: %s\n%s", id, why, code, out, env)
	}
	Must(t, "epilog", job)
}

// Must runs a program that has to succeed without a word.
func Must(t *testing.T, program, job string) {
	t.Helper()
	if out, code := ByHand(t, program, job); code != 0 || out != "" {
		t.Fatalf("%s: exit %d: %s", program, code, out)
	}
}
