package vm

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// journalOf returns the journal of a job's lease, of a job as it is told to ByHand.
func journalOf(job string) string {
	return "/run/gresnet/jobs/" + regexp.MustCompile(`SLURM_JOB_ID=(\d+)`).FindStringSubmatch(job)[1] + "/journal"
}

// Moment is when kill -9 strikes: at a line that the program writes to its journal.
type Moment struct {
	line    int
	written bool // the line is there, and what it tells of is not done; else what was told before is done
}

func (m Moment) String() string {
	if m.written {
		return fmt.Sprintf("after line %d", m.line)
	}
	return fmt.Sprintf("before line %d", m.line)
}

// Before is when what was told before a line is done.
func Before(line int) Moment { return Moment{line, false} }

// atJournal runs a program under a strace that sees what it writes to its journal and
// nothing else. The program is the test's own child.
func atJournal(t *testing.T, program, job, inject string) *exec.Cmd {
	t.Helper()
	NoDeadline(t)
	arguments := []string{"-E", NoPreemption, "-D", "-f", "-qq", "-o", TraceFile, "-e", "signal=none", "-P", journalOf(job), "-e", "trace=write"}
	if inject != "" {
		arguments = append(arguments, "-e", "inject=write:"+inject)
	}
	cmd := exec.Command("strace", append(arguments, Repo()+"/bin/gresnet-"+program)...)
	cmd.Env = strings.Fields(strings.TrimPrefix(SlurmdEnv, "env -i ") + job)
	return cmd
}

// written returns how many lines strace has seen on their way to the journal.
func written() int {
	log, _ := os.ReadFile(TraceFile) // it is not there before the first
	return bytes.Count(log, []byte(" write("))
}

// Moments runs a program of a job once and tells when it is to be killed: before and after each
// line for the long tests, some of these for the short ones.
func Moments(t *testing.T, program, job string) (all []Moment) {
	t.Helper()
	os.Remove(TraceFile)
	if out, err := atJournal(t, program, job, "").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	lines, least := written(), 4
	if program == "epilog" {
		least = 3 // of a lease of devices alone it marks all entries but the claim's
	}
	if lines < least {
		t.Fatalf("%s wrote only %d lines to its journal", program, lines)
	}
	for n := 1; n <= lines; n++ {
		all = append(all, Moment{n, false}, Moment{n, true})
	}
	if Rounds(0, 1) == 1 {
		return all
	}
	return []Moment{all[1], all[lines/2|1], all[lines], all[len(all)-1]}
}

// KillAt runs a program of a job and kills it at a moment.
func KillAt(t *testing.T, program, job string, m Moment) {
	t.Helper()
	os.Remove(TraceFile)
	defer func() {
		if t.Failed() {
			saw, err := os.ReadFile(TraceFile)
			t.Logf("strace saw of %s (%v):\n%s", program, err, saw)
		}
	}()
	inject := fmt.Sprintf("signal=KILL:when=%d", m.line)
	if m.written {
		inject = fmt.Sprintf("delay_exit=%d:when=%d", (5 * time.Minute).Microseconds(), m.line)
	}
	cmd := atJournal(t, program, job, inject)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if m.written {
		Eventually(t, fmt.Sprintf("%s is held %s", program, m), func() bool {
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

// tracerOf returns the strace of a program.
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

// KillAnywhere kills the prolog and the epilog of a job around each line of the journal, has the epilog
// finish, and returns how many kills there were. whole tells whether the node is as it was.
func KillAnywhere(t *testing.T, job string, whole func() bool) int {
	t.Helper()
	NoDeadline(t)
	Must(t, "prolog", job)
	epilog := Moments(t, "epilog", job)
	prolog := Moments(t, "prolog", job)
	Must(t, "epilog", job)
	for _, m := range prolog {
		KillAt(t, "prolog", job, m)
		Must(t, "epilog", job)
		if !whole() {
			t.Fatalf("after kill -9 of the prolog %s", m)
		}
	}
	for _, m := range epilog {
		Must(t, "prolog", job)
		KillAt(t, "epilog", job, m)
		Must(t, "epilog", job)
		if !whole() {
			t.Fatalf("after kill -9 of the epilog %s", m)
		}
	}
	return len(prolog) + len(epilog)
}
