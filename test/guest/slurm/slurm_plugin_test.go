package slurm

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

func nodeState(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, "sinfo -h -o %T"))
}

// inService waits until the node is idle, which it is for a while not yet after its jobs'
// last epilog, and never is if Slurm has drained it.
func inService(t *testing.T) {
	t.Helper()
	vm.Eventually(t, "the node is idle", func() bool { return nodeState(t) == "idle" })
}

func TestABatchScriptIsToldWhereItsHCAsAre(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	host := strings.TrimSpace(vm.Run(t, vm.WhereAmI))
	const text = vm.WhereAmI + "; srun " + vm.WhereAmI
	for _, c := range []struct {
		name, arguments, options string
		notices                  int
	}{
		{"by default", "", "--gres=nic:1", 1},
		{"without HCAs", "", "", 0},
		{"notice=off", "notice=off", "--gres=nic:1", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm.PluginArguments(t, c.arguments)
			out := vm.Script(t, c.options, text)
			if got := strings.Count(out, vm.NoticeText); got != c.notices {
				t.Errorf("%d notices, wanted %d:\n%s", got, c.notices, out)
			}
			if !strings.Contains(out, host) {
				t.Errorf("the script is not in the node's network %s:\n%s", host, out)
			}
		})
	}
	vm.Same(t, before)
}

func TestABatchScriptEntersWherePlugstackSaysSo(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	for _, argument := range []string{"batch", "batch=single"} {
		t.Run(argument, func(t *testing.T) {
			vm.PluginArguments(t, argument)
			out := vm.Script(t, "--gres=nic:1", vm.WhereAmI+"; ls /sys/class/net | xargs")
			if strings.Contains(out, strings.TrimSpace(vm.Run(t, vm.WhereAmI))) || strings.Contains(out, "roce1") || strings.Contains(out, vm.NoticeText) {
				t.Errorf("the script is not inside:\n%s", out)
			}
		})
	}
	vm.Same(t, before)
}

func TestAMistakeInPlugstackKeepsStepsFromStarting(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.PluginArguments(t, "step")
	const reason = "gresnet: plugstack.conf: unknown argument step; hint: "
	const seeLog = "hint: slurmd's log has the reason"
	for _, options := range []string{"--gres=nic:1", ""} {
		out, err := vm.TryAs("alice", "srun "+options+" echo has run")
		if err == nil || strings.Contains(out, "has run") || !strings.Contains(out, seeLog) {
			t.Errorf("srun %s: %v\n%s", options, err, out)
		}
	}
	if !strings.Contains(vm.Run(t, "cat /var/log/slurmd.log"), reason) {
		t.Error("slurmd's log has no reason")
	}
	inService(t)
	job := vm.Submit(t, "alice", "--gres=nic:1", "echo has run")
	vm.Eventually(t, "a batch job drains the node", func() bool { return strings.HasPrefix(nodeState(t), "drain") })
	vm.Cancel(t, job)
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}

func TestUsersGetNoHCAsAtAllWhereTheyMayAskForThat(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	const look = "srun --gres=nic:1 --gresnet=none bash -c '" + vm.WhereAmI + "; ls -A /dev/infiniband | wc -l'"

	out, err := vm.TryAs("alice", look)
	if err == nil || !strings.Contains(out, "--gresnet=none is not allowed on this node") || strings.Contains(out, "net:[") {
		t.Errorf("not allowed: %v\n%s", err, out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	inService(t)

	vm.PluginArguments(t, "allow=none")
	host := strings.TrimSpace(vm.Run(t, vm.WhereAmI))
	if out := vm.As(t, "alice", look); out != host+"\n0\n" {
		t.Errorf("allowed: %q, wanted %s and no device", out, host)
	}
	out, err = vm.TryAs("alice", "srun --gresnet=nine echo has run")
	if err == nil || !strings.Contains(out, "--gresnet=nine: unknown value") {
		t.Errorf("an unknown value: %v\n%s", err, out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}

func TestAJobThatIsRefusedSaysWhyInItsOutputAndTheNodeStays(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.WriteConfig(t, "[slurm]\ngres = [\"nic\"]\nsource = [\"policy\"]\n[[policy]]\npartition = [\"other\"]\ncount = 1\n")
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	out := vm.Script(t, "--gres=nic:1", "srun echo has run; echo exit $?")
	if strings.Contains(out, "has run") || !strings.Contains(out, "exit 1") || strings.Count(out, "refused: ") < 2 {
		t.Errorf("wanted the reason from the script and from the step:\n%s", out)
	}
	out, err := vm.TryAs("alice", "srun -n4 --gres=nic:1 echo has run")
	t.Logf("a step of four tasks that is refused:\n%s", out)
	lines := 0
	for line := range strings.Lines(out) {
		switch {
		case strings.Contains(line, "error: gresnet: job ") && strings.Contains(line, ": refused: "):
			lines++
		case strings.HasPrefix(line, "srun: error: node1: task") && strings.HasSuffix(line, "Exited with exit code 1\n"):
			// as of each program that fails
		default:
			t.Errorf("another line: %s", line)
		}
	}
	if err == nil || lines != 1 {
		t.Errorf("wanted one line of the reason: %v, %d lines", err, lines)
	}
	inService(t)
	vm.Same(t, before)
}
