package proc_test

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"gresnet/lib/proc"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
)

// start runs a command until the test ends, and returns when it has said a line.
func start(t *testing.T, name string, args ...string) int {
	t.Helper()
	cmd := exec.Command(name, args...)
	standin.Start(t, cmd)
	return cmd.Process.Pid
}

func pids(list []proc.Process) (pids []int) {
	for _, p := range list {
		pids = append(pids, p.PID)
	}
	return pids
}

func TestAProcessInsideANamespaceIsFound(t *testing.T) {
	ns := netnstest.New(t)
	pid := start(t, "nsenter", "--net="+ns.Path, "sh", "-c", "echo; exec cat")
	inside, err := proc.Inside(ns.String())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(pids(inside), []int{pid}) || inside[0].Name != "cat" {
		t.Errorf("inside is %v, wanted cat (pid %d)", inside, pid)
	}
}

func TestAStepIsFoundByItsTitleIfItIsRoots(t *testing.T) {
	netnstest.New(t) // needs root, as below
	const job = 4294000001
	title := fmt.Sprintf("slurmstepd: [%d.extern]", uint32(job))
	titled := `exec -a "` + title + `" cat <(echo) -`
	start(t, "setpriv", "--reuid", "65534", "bash", "-c", titled)
	start(t, "setpriv", "--ruid", "65534", "bash", "-p", "-c", titled) // as a program with the setuid bit
	if steps, err := proc.Steps(job); err != nil || len(steps) != 0 {
		t.Errorf("another user's process passes for a step: %v, %v", steps, err)
	}
	pid := start(t, "setpriv", "--euid", "65534", "bash", "-p", "-c", titled) // slurmstepd is so for moments
	if steps, err := proc.Steps(job); err != nil || !slices.Equal(pids(steps), []int{pid}) {
		t.Errorf("steps are %v, %v, wanted pid %d", steps, err, pid)
	}
	if steps, err := proc.Steps(job / 10); err != nil || len(steps) != 0 {
		t.Errorf("steps of another job: %v, %v", steps, err)
	}
}
