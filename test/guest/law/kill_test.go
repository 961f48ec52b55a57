package law

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// lawJob is a job as Slurm has one: it has nodes, and so an overlay.
const lawJob = vm.LawJob + " SLURM_NODELIST=node1"

const lawJournal = "/run/gresnet/jobs/900030/journal"

// moment is when kill -9 strikes: at a line that the program writes to its journal.
type moment struct {
	line    int
	written bool // the line is there, and what it tells of is not done; else what was told before is done
}

func (m moment) String() string {
	if m.written {
		return fmt.Sprintf("after line %d", m.line)
	}
	return fmt.Sprintf("before line %d", m.line)
}

// atJournal runs a program under a strace that sees what it writes to its journal and
// nothing else. The program is the test's own child.
func atJournal(program, job, inject string) *exec.Cmd {
	arguments := []string{"-D", "-f", "-qq", "-o", vm.TraceFile, "-e", "signal=none", "-P", lawJournal, "-e", "trace=write"}
	if inject != "" {
		arguments = append(arguments, "-e", "inject=write:"+inject)
	}
	cmd := exec.Command("strace", append(arguments, vm.Repo()+"/bin/gresnet-"+program)...)
	cmd.Env = strings.Fields(strings.TrimPrefix(vm.SlurmdEnv, "env -i ") + job)
	return cmd
}

// written is how many lines strace has seen on their way to the journal.
func written() int {
	log, _ := os.ReadFile(vm.TraceFile) // it is not there before the first
	return bytes.Count(log, []byte(" write("))
}

// moments runs a program once and tells when it is to be killed: before and after each
// line for the long tests, some of these for the short ones.
func moments(t *testing.T, program string) (all []moment) {
	t.Helper()
	os.Remove(vm.TraceFile)
	if err := atJournal(program, lawJob, "").Run(); err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	lines := written()
	if lines < 4 {
		t.Fatalf("%s wrote only %d lines to its journal", program, lines)
	}
	for n := 1; n <= lines; n++ {
		all = append(all, moment{n, false}, moment{n, true})
	}
	if vm.Rounds(0, 1) == 1 {
		return all
	}
	return []moment{all[1], all[lines/2|1], all[lines], all[len(all)-1]}
}

// killAt runs a program and kills it at a moment.
func killAt(t *testing.T, program string, m moment) {
	t.Helper()
	os.Remove(vm.TraceFile)
	inject := fmt.Sprintf("signal=KILL:when=%d", m.line)
	if m.written {
		inject = fmt.Sprintf("delay_exit=%d:when=%d", (5 * time.Minute).Microseconds(), m.line)
	}
	cmd := atJournal(program, lawJob, inject)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if m.written {
		vm.Eventually(t, fmt.Sprintf("%s is held %s", program, m), func() bool {
			return written() == m.line && held(cmd.Process.Pid)
		})
		tracer := tracerOf(t, cmd.Process.Pid)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		// It waits for its delay to end before it lets the dead go.
		if err := syscall.Kill(tracer, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
		t.Fatalf("%s was not killed %s: %s", program, m, cmd.ProcessState)
	}
}

// tracerOf is the strace of a program.
func tracerOf(t *testing.T, pid int) (tracer int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("\nTracerPid:"))
	fmt.Sscan(string(rest), &tracer)
	if tracer <= 1 {
		t.Fatalf("process %d has no tracer:\n%s", pid, status)
	}
	return tracer
}

// held tells that strace holds a program longer than it needs to write down a call.
func held(pid int) bool {
	for range 30 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || !bytes.Contains(stat, []byte(") t ")) {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

func TestAPrologThatIsKilledAnywhereIsUndoneByTheEpilog(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	all := moments(t, "prolog")
	vm.Must(t, "epilog", lawJob)
	for _, m := range all {
		killAt(t, "prolog", m)
		vm.Must(t, "epilog", lawJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("after kill -9 %s", m)
		}
	}
	t.Logf("%d kills of the prolog", len(all))
}

func TestAnEpilogThatIsKilledAnywhereIsFinishedByTheNext(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", lawJob)
	all := moments(t, "epilog")
	for _, m := range all {
		vm.Must(t, "prolog", lawJob)
		killAt(t, "epilog", m)
		vm.Must(t, "epilog", lawJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("after kill -9 %s", m)
		}
	}
	t.Logf("%d kills of the epilog", len(all))
}
