package guest

import (
	"os"
	"strings"
	"testing"
)

const (
	plugstack  = "/etc/slurm/plugstack.conf"
	whereAmI   = "readlink /proc/self/ns/net"
	noticeText = "gresnet: this job's HCAs are inside its srun steps"
)

// slurmAnew starts Slurm again, as its configuration says by now.
func slurmAnew(t *testing.T, options ...string) {
	t.Helper()
	run(t, repo()+"/test/vm/slurm-up --gresnet "+strings.Join(options, " ")+" >&2")
}

// pluginArguments has plugstack.conf say something for the time of a test.
// slurmstepd reads it for each step.
func pluginArguments(t *testing.T, arguments string) {
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

func nodeState(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, "sinfo -h -o %T"))
}

// inService waits until the node is idle, which it is for a while not yet after its jobs'
// last epilog, and never is if Slurm has drained it.
func inService(t *testing.T) {
	t.Helper()
	eventually(t, "the node is idle", func() bool { return nodeState(t) == "idle" })
}

// script runs a batch job to its end and returns what it wrote.
func script(t *testing.T, options, text string) string {
	t.Helper()
	job := submit(t, "alice", options, text)
	ended(t, job)
	return run(t, "cat /tmp/"+job+".out")
}

func TestABatchScriptIsToldWhereItsHCAsAre(t *testing.T) {
	slurm(t)
	before := picture(t)
	host := strings.TrimSpace(run(t, whereAmI))
	const text = whereAmI + "; srun " + whereAmI
	for _, c := range []struct {
		name, arguments, options string
		notices                  int
	}{
		{"by default", "", "--gres=nic:1", 1},
		{"without HCAs", "", "", 0},
		{"notice=off", "notice=off", "--gres=nic:1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			pluginArguments(t, c.arguments)
			out := script(t, c.options, text)
			if got := strings.Count(out, noticeText); got != c.notices {
				t.Errorf("%d notices, wanted %d:\n%s", got, c.notices, out)
			}
			if !strings.Contains(out, host) {
				t.Errorf("the script is not in the node's network %s:\n%s", host, out)
			}
		})
	}
	same(t, before)
}

func TestABatchScriptEntersWherePlugstackSaysSo(t *testing.T) {
	slurm(t)
	before := picture(t)
	pluginArguments(t, "batch")
	out := script(t, "--gres=nic:1", whereAmI+"; ls /sys/class/net | xargs")
	if strings.Contains(out, strings.TrimSpace(run(t, whereAmI))) || strings.Contains(out, "eth0") || strings.Contains(out, noticeText) {
		t.Errorf("the script is not inside:\n%s", out)
	}
	same(t, before)
}

func TestAMistakeInPlugstackKeepsStepsFromStarting(t *testing.T) {
	slurm(t)
	before := picture(t)
	pluginArguments(t, "step")
	const reason = "gresnet: plugstack.conf: unknown argument step; hint: "
	const seeLog = "hint: slurmd's log has the reason"
	for _, options := range []string{"--gres=nic:1", ""} {
		out, err := tryAs("alice", "srun "+options+" echo has run")
		if err == nil || strings.Contains(out, "has run") || !strings.Contains(out, seeLog) {
			t.Errorf("srun %s: %v\n%s", options, err, out)
		}
	}
	if !strings.Contains(run(t, "cat /var/log/slurmd.log"), reason) {
		t.Error("slurmd's log has no reason")
	}
	inService(t)
	job := submit(t, "alice", "--gres=nic:1", "echo has run")
	eventually(t, "a batch job drains the node", func() bool { return strings.HasPrefix(nodeState(t), "drain") })
	cancel(t, job)
	eventually(t, "the epilog has run", noLease)
	same(t, before)
}

func TestUsersGetNoHCAsAtAllWhereTheyMayAskForThat(t *testing.T) {
	slurm(t)
	before := picture(t)
	const look = "srun --gres=nic:1 --gresnet=none bash -c '" + whereAmI + "; ls -A /dev/infiniband | wc -l'"

	out, err := tryAs("alice", look)
	if err == nil || !strings.Contains(out, "--gresnet=none is not allowed on this node") || strings.Contains(out, "net:[") {
		t.Errorf("not allowed: %v\n%s", err, out)
	}
	eventually(t, "the epilog has run", noLease)
	inService(t)

	pluginArguments(t, "allow=none")
	host := strings.TrimSpace(run(t, whereAmI))
	if out := as(t, "alice", look); out != host+"\n0\n" {
		t.Errorf("allowed: %q, wanted %s and no device", out, host)
	}
	out, err = tryAs("alice", "srun --gresnet=nine echo has run")
	if err == nil || !strings.Contains(out, "--gresnet=nine: unknown value") {
		t.Errorf("an unknown value: %v\n%s", err, out)
	}
	eventually(t, "the epilog has run", noLease)
	same(t, before)
}

func TestAJobThatIsRefusedSaysWhyInItsOutputAndTheNodeStays(t *testing.T) {
	slurm(t)
	before := picture(t)
	writeConfig(t, "[slurm]\ngres = [\"nic\"]\nsource = [\"policy\"]\n[[policy]]\npartition = [\"other\"]\ncount = 1\n")
	t.Cleanup(func() { writeConfig(t, config) })
	out := script(t, "--gres=nic:1", "srun echo has run; echo exit $?")
	if strings.Contains(out, "has run") || !strings.Contains(out, "exit 1") || strings.Count(out, "refused: ") < 2 {
		t.Errorf("wanted the reason from the script and from the step:\n%s", out)
	}
	inService(t)
	same(t, before)
}
