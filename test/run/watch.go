package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// patience returns how long a package's tests may say nothing until they count as tests that hang: a quarter of
// the run's limit. The longest test takes less than a tenth of the time of all tests, so a machine where it takes
// that long is too slow for the limit, too.
func (r *run) patience() time.Duration { return r.limit / 4 }

// watch runs a package's tests for go test -exec. If they say nothing for too long, it has Go's runtime say where
// each goroutine is, and ends them: the tests of other packages go on.
func watch(most time.Duration, program []string, out io.Writer) (exit int) {
	runtime.LockOSThread() // the tests end with this thread, see Pdeathsig
	defer runtime.UnlockOSThread()
	in, theirs, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(out, "run:", err)
		return 1
	}
	defer in.Close()
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Stdout, cmd.Stderr = theirs, theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		fmt.Fprintln(out, "run:", err)
		return 1
	}
	said, ended := chunks(in), make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	silences := 0
	late := time.NewTimer(most)
	for said != nil || ended != nil {
		select {
		case text, more := <-said:
			if !more {
				said = nil
				continue
			}
			out.Write(text)
		case <-ended:
			ended = nil
		case <-late.C:
			silences++
			switch {
			case ended == nil:
				fmt.Fprintf(out, "run: %s has ended, and what it has left keeps its output open\n", program[0])
				return 1
			case silences == 1:
				fmt.Fprintf(out, "run: %s says nothing for %s: a test hangs\n", program[0], most)
				cmd.Process.Signal(syscall.SIGQUIT)
			case silences == 2:
				cmd.Process.Kill()
			default:
				fmt.Fprintf(out, "run: %s does not end: it is left behind\n", program[0])
				return 1
			}
		}
		if silences > 0 {
			late.Reset(most / 10) // to say where the goroutines are takes less
		} else {
			late.Reset(most)
		}
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 && silences == 0 {
		return code
	}
	return 1
}

// chunks returns what comes from a pipe until its end.
func chunks(in io.Reader) <-chan []byte {
	said := make(chan []byte)
	go func() {
		defer close(said)
		for {
			text := make([]byte, 1<<16)
			n, err := in.Read(text)
			if n > 0 {
				said <- text[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return said
}
