package proc_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/kernel/proc"
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
	pid := start(t, "nsenter", "--net="+ns.Path, "cat", "/proc/self/comm", "-")
	inside, err := proc.Inside(ns.String(), proc.NoUser)
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
	titled := `exec -a "` + title + `" cat /proc/self/comm -`
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

func TestOneLookFindsTheStepsOfAllJobs(t *testing.T) {
	netnstest.New(t) // needs root
	want := map[uint32][]int{}
	for _, title := range []string{"4294000011.extern", "4294000011.batch", "4294000012.0", "4294000013", "job.extern"} {
		pid := start(t, "bash", "-c", `exec -a "slurmstepd: [`+title+`]" cat /proc/self/comm -`)
		var job uint32
		if n, _ := fmt.Sscanf(title, "%d.", &job); n == 1 && strings.Contains(title, ".") {
			want[job] = append(want[job], pid)
		}
	}
	all, err := proc.LookForSteps()
	if err != nil {
		t.Fatal(err)
	}
	for _, job := range []uint32{4294000011, 4294000012, 4294000013, 4294000014, 0} {
		steps, err := all.Of(job)
		got := pids(steps)
		slices.Sort(got)
		slices.Sort(want[job])
		if err != nil || !slices.Equal(got, want[job]) {
			t.Errorf("steps of job %d are %v, %v, wanted the pids %v", job, steps, err, want[job])
		}
	}
}
