package source

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"gresnet/lib/words/hint"
	"gresnet/lib/words/poll"
)

// command is a program to be run with an environment that is all its own.
type command struct {
	path string
	args []string
	env  []string
	max  int // bytes that it may print
}

// maxErrors bounds what is kept of what a program says to stderr.
const maxErrors = 64 << 10

// errLong means that a program's answer is longer than any should be.
var errLong = errors.New("it printed too much")

// errLate means that a program did not answer in time.
var errLate = errors.New("no answer in time")

// exitError is a program's own failure, with what it said.
type exitError struct {
	error
	said string
}

func (e exitError) Error() string { return e.error.Error() + quoteSaid(e.said) }
func (e exitError) Unwrap() error { return e.error }

func quoteSaid(line string) string {
	if line == "" {
		return ""
	}
	return fmt.Sprintf(": it says %q", line)
}

// run runs the program and returns what it printed. Neither the program nor
// what it started outlives the context or this process.
func (c command) run(ctx context.Context) (string, error) {
	out, problems := &bounded{max: c.max}, &bounded{max: maxErrors, drop: true}
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"}, c.env...)
	cmd.Stdout, cmd.Stderr = out, problems
	// A group of its own, so that what it started is killed with it. slurmd's
	// kill of the prolog's group then misses it; hence Pdeathsig, which is sent
	// when the thread that forked ends, and so needs it to be this one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = poll.LeftOpen
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		// It ended, and what it started still holds the pipe.
		_ = cmd.Cancel()
	}
	return string(out.text), judge(ctx, err, out, problems)
}

// judge says what went wrong, if anything.
func judge(ctx context.Context, err error, out, problems *bounded) error {
	said := problems.firstLine()
	switch {
	case out.over:
		return fmt.Errorf("%w: more than %d KiB", errLong, out.max>>10)
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w%s", errLate, quoteSaid(said))
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return exitError{err, said}
}

// bounded keeps what is written to it up to a size. What is more is dropped, or
// an error, which closes the pipe to the writer.
type bounded struct {
	text []byte
	max  int
	drop bool
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := min(len(p), b.max-len(b.text))
	b.text = append(b.text, p[:room]...)
	if room < len(p) {
		b.over = true
		if !b.drop {
			return room, errors.New("too much output")
		}
	}
	return len(p), nil
}

func (b *bounded) firstLine() string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b.text)), "\n")
	return hint.Clip(line)
}
