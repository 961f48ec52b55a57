// Package program runs programs of the site's and of Slurm's, with an environment that is all their own
// and for a bounded time.
package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/base/trust"
)

// Program is a program to be run.
type Program struct {
	Path string
	Args []string
	Env  []string
	Max  int // bytes that it may print; more is an error
	// Alone has the program end with all that it started, in whatever session: it is the first process
	// of a PID namespace. What it prints beyond Max is dropped, and its errors are among what it printed.
	Alone bool
}

// maxErrors bounds what is kept of what a program says to stderr.
const maxErrors = 64 << 10

// ErrLong means that a program's answer is longer than any should be.
var ErrLong = errors.New("it printed too much")

// ErrLate means that a program did not answer in time.
var ErrLate = errors.New("no answer in time")

// errStuck means that a program was killed and does not end: the kernel is at something for it.
var errStuck = errors.New("it was killed, and the kernel does not let it end")

// ExitError is a program's own failure, with what it said.
type ExitError struct {
	error
	Said string
}

func (e ExitError) Error() string { return e.error.Error() + quoteSaid(e.Said) }
func (e ExitError) Unwrap() error { return e.error }

func quoteSaid(line string) string {
	if line == "" {
		return ""
	}
	return fmt.Sprintf(": it says %q", line)
}

// Check wants a program that root alone can have written.
func Check(path string) error {
	f, err := trust.Open(path)
	switch {
	case errors.Is(err, trust.ErrNoFile):
		return errors.New("there is no such program")
	case err != nil:
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&0o111 == 0 {
		err = errors.New("it is not executable")
	}
	return hint.Join(err, f.Close())
}

// Run runs the program in the namespaces of the calling thread, and returns what it printed. Neither the
// program nor what it started outlives the context or this process.
func (p Program) Run(ctx context.Context) (string, error) {
	out, problems := &bounded{max: p.Max, drop: p.Alone}, &bounded{max: maxErrors, drop: true}
	if p.Alone {
		out.whole, problems = true, out
	}
	cmd := exec.CommandContext(ctx, p.Path, p.Args...)
	cmd.Dir = "/"
	cmd.Env = append([]string{"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"}, p.Env...)
	cmd.Stdout, cmd.Stderr = out, problems
	// A group of its own, so that what it started is killed with it. slurmd's
	// kill of the prolog's group then misses it; hence Pdeathsig, which is sent
	// when the thread that forked ends, and so needs it to be this one.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.Alone {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWPID
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = poll.LeftOpen
	// Descriptors that this process was started with would go along.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // from kernel 5.11
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	if err == nil {
		err = wait(ctx, cmd)
	}
	if errors.Is(err, errStuck) {
		return "", err // somebody may still write what it prints
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		// It ended, and what it started still holds the pipe.
		_ = cmd.Cancel()
	}
	return string(out.text), judge(ctx, err, out, problems)
}

// wait waits for a program, and leaves one behind that does not end when it is killed.
func wait(ctx context.Context, cmd *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	err, is := poll.Hear(context.Background(), ended, poll.Killed)
	if !is {
		return errStuck
	}
	return err
}

// judge says what went wrong, if anything.
func judge(ctx context.Context, err error, out, problems *bounded) error {
	said := problems.line()
	switch {
	case out.over && !out.drop:
		return fmt.Errorf("%w: more than %d KiB", ErrLong, out.max>>10)
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w%s", ErrLate, quoteSaid(said))
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return ExitError{err, said}
}

// CannotRun tells whether a program could not be started because of what it is. That there are too many
// processes, or no memory, is another matter: users can cause that.
func CannotRun(err error) bool {
	var start *fs.PathError
	return errors.As(err, &start) && !slices.ContainsFunc([]error{syscall.EAGAIN, syscall.ENOMEM, syscall.ENFILE, syscall.EMFILE},
		func(scarce error) bool { return errors.Is(err, scarce) })
}

// bounded keeps what is written to it up to a size. What is more is dropped, or
// an error, which closes the pipe to the writer.
type bounded struct {
	text []byte
	max  int
	drop bool
	over bool

	whole bool // it has all that the program prints, whose last line tells most
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

// line returns the line that tells most.
func (b *bounded) line() string {
	lines := strings.Split(strings.TrimSpace(string(b.text)), "\n")
	if b.whole {
		return hint.Clip(lines[len(lines)-1])
	}
	return hint.Clip(lines[0])
}
