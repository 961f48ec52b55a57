package proc

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/detach"
)

// stepper looks for steps aside. A process's title is read from its memory, and that waits
// while the process changes what is mapped there, which can wait for a file server. And
// who looks at the memory of a process that ends may have to end what it has mapped.
var stepper = detach.New("gresnet-steps", stepChild)

// A stepper's messages, of a word and what belongs to it.
const (
	stepFound = "step" // PID JOB NAME
	stepHeld  = "held" // PID NAME: a slurmstepd whose title it could not read in time
)

// title is what the titles of all steps begin with (slurmstepd.c:_init_from_slurmd): job and step
// follow, as in "slurmstepd: [4711.extern]".
const title = "slurmstepd: ["

// Steps returns the slurmstepd processes of a job. With PrologFlags=Contain a job
// has one, its extern step's, from its prolog's end until its epilog.
func Steps(job uint32) ([]Process, error) {
	all, err := lookForSteps(fmt.Sprintf("%s%d.", title, job))
	if err != nil {
		return nil, err
	}
	return all.Of(job)
}

// AllSteps are the slurmstepd processes of all jobs, by one look at the node's processes.
type AllSteps struct {
	of   map[uint32][]Process
	held error // a slurmstepd whose title could not be read
}

// Jobs returns the jobs that have a step.
func (a AllSteps) Jobs() []uint32 { return slices.Sorted(maps.Keys(a.of)) }

// Of returns the slurmstepd processes of a job.
func (a AllSteps) Of(job uint32) ([]Process, error) {
	if len(a.of[job]) == 0 {
		return nil, a.held
	}
	return a.of[job], nil
}

// LookForSteps looks for the steps of all jobs.
func LookForSteps() (AllSteps, error) { return lookForSteps(title) }

// lookForSteps looks for steps whose titles begin with a text.
func lookForSteps(begin string) (AllSteps, error) {
	all := AllSteps{of: map[uint32][]Process{}}
	at, err := stepper.Ask(time.Now().Add(poll.StepLook), 0, func(message string, _ int) error {
		word, rest, _ := strings.Cut(message, " ")
		number, name, _ := strings.Cut(rest, " ")
		pid, _ := strconv.Atoi(number)
		if word == stepHeld {
			all.held = fmt.Errorf("read the title of %s: %w", Process{pid, name}, detach.ErrHeldUp)
			return nil
		}
		number, name, _ = strings.Cut(name, " ")
		job, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			return fmt.Errorf("read its job: %w", err)
		}
		all.of[uint32(job)] = append(all.of[uint32(job)], Process{pid, name})
		return nil
	}, begin)
	if err != nil {
		return all, fmt.Errorf("look for slurmstepd, at %s: %w", cmp.Or(at, "/proc"), err)
	}
	return all, nil
}

// stepChild is the stepper. Its argument is what the title begins with.
func stepChild(args []string, say detach.Say) error {
	if len(args) != 1 {
		return errors.New("no title")
	}
	pids, err := numbers("/proc")
	if err != nil {
		return err
	}
	progress := TellProgress(say)
	for _, pid := range pids {
		progress.At(pid, 0)
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		job, answered := poll.Within(context.Background(), poll.StepTitle, func() string { return lookStep(pid, []byte(args[0])) })
		message := ""
		switch {
		case job != "":
			message = fmt.Sprintf("%s %d %s", stepFound, pid, job)
		case !answered:
			// Others may well be held up: a program that root runs on a user's files.
			if exe, err := os.Readlink(dir + "/exe"); err == nil && strings.HasPrefix(filepath.Base(exe), "slurmstepd") {
				message = fmt.Sprintf("%s %d", stepHeld, pid)
			}
		}
		if message == "" {
			continue
		}
		name, err := nameOf(pid)
		if err != nil {
			continue // it has ended
		}
		if err := say(message+" "+name, -1); err != nil {
			return err
		}
	}
	return nil
}

// lookStep returns the job of a step, or nothing. Whose the process is it asks first: that takes no
// lock which the process holds while it maps files (fs/proc/array.c:proc_pid_status).
func lookStep(pid int, begin []byte) (job string) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if !startedByRoot(dir) {
		return ""
	}
	line, err := os.ReadFile(dir + "/cmdline")
	if err != nil || !bytes.HasPrefix(line, begin) {
		return ""
	}
	number, _, _ := bytes.Cut(line[len(title):], []byte("."))
	if _, err := strconv.ParseUint(string(number), 10, 32); err != nil {
		return ""
	}
	if executedBy(pid) != 0 {
		return "" // a user's, who had a program run as root, such as sudo, and gave it the title
	}
	return string(number)
}

// startedByRoot tells a process whose real user is root. Anybody can give a process
// any title; slurmstepd in turn is its job's user for moments, but never really (proc(5), /proc/PID/status).
func startedByRoot(dir string) bool {
	status, err := os.ReadFile(dir + "/status")
	return err == nil && bytes.Contains(status, []byte("\nUid:\t0\t"))
}
