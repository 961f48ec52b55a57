package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gresnet/lib/aside"
)

// stepper looks for steps aside. A process's title is read from its memory, and that waits
// while the process changes what is mapped there, which can wait for a file server. And
// who looks at the memory of a process that ends may have to end what it has mapped.
var stepper = aside.New("gresnet-steps", stepChild)

// A stepper's messages, of a word and what belongs to it.
const (
	stepFound = "step" // PID NAME
	stepHeld  = "held" // PID NAME: a slurmstepd whose title it could not read in time
	stepsDone = "done"
)

// How long a look for steps may take, and be at one process.
const (
	stepsTimeout = 10 * time.Second
	titleTimeout = time.Second
)

// Steps are the slurmstepd processes of a job. With PrologFlags=Contain a job
// has one, its extern step's, from its prolog's end until its epilog.
func Steps(job uint32) ([]Process, error) {
	// slurmstepd.c:_init_from_slurmd sets the title "slurmstepd: [JOBID.STEP]".
	process, err := stepper.Start(fmt.Sprintf("slurmstepd: [%d.", job))
	if err != nil {
		return nil, fmt.Errorf("look for slurmstepd: %w", err)
	}
	defer process.Leave()
	var list []Process
	var held error
	for until := time.Now().Add(stepsTimeout); ; {
		message, _, err := process.Hear(until)
		if err != nil {
			return nil, fmt.Errorf("look for slurmstepd: %w", err)
		}
		word, rest, _ := strings.Cut(message, " ")
		number, name, _ := strings.Cut(rest, " ")
		pid, _ := strconv.Atoi(number)
		p := Process{pid, name}
		switch word {
		case stepFound:
			list = append(list, p)
		case stepHeld:
			held = fmt.Errorf("read the title of %s: %w", p, aside.ErrHeldUp)
		case stepsDone:
			if len(list) == 0 {
				return nil, held
			}
			return list, nil
		}
	}
}

// stepChild is the stepper. Its argument is what the title begins with.
func stepChild(args []string, say aside.Say) error {
	if len(args) != 1 {
		return errors.New("no title")
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		answer := make(chan string, 1)
		go func() { answer <- lookStep(dir, []byte(args[0])) }()
		word := ""
		select {
		case word = <-answer:
		case <-time.After(titleTimeout):
			// Others may well be held up: a program that root runs on a user's files.
			if exe, err := os.Readlink(dir + "/exe"); err == nil && strings.HasPrefix(filepath.Base(exe), "slurmstepd") {
				word = stepHeld
			}
		}
		if word == "" {
			continue
		}
		comm, err := os.ReadFile(dir + "/comm")
		if err != nil {
			continue // it has ended
		}
		if err := say(fmt.Sprintf("%s %s %s", word, filepath.Base(dir), bytes.TrimSpace(comm)), -1); err != nil {
			return err
		}
	}
	return say(stepsDone, -1)
}

// lookStep tells a step. Whose the process is it asks first: that takes no lock which the
// process holds while it maps files (fs/proc/array.c:proc_pid_status).
func lookStep(dir string, title []byte) string {
	if !startedByRoot(dir) {
		return ""
	}
	line, err := os.ReadFile(dir + "/cmdline")
	if err != nil || !bytes.HasPrefix(line, title) {
		return ""
	}
	return stepFound
}

// startedByRoot tells a process whose real user is root. Anybody can give a process
// any title, and have a program run as root that is made for that; slurmstepd in turn
// is its job's user for moments, but never really (proc(5), /proc/PID/status).
func startedByRoot(dir string) bool {
	status, err := os.ReadFile(dir + "/status")
	return err == nil && bytes.Contains(status, []byte("\nUid:\t0\t"))
}
