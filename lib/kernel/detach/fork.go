package detach

import (
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Work is what a process does.
type Work interface {
	// Keep returns the descriptors that Do uses or holds.
	Keep() []uintptr
	// Do runs in the process and returns its exit code. Output is what Fork.Output reads. Do must
	// be marked go:nosplit, go:norace and go:nocheckptr, and so must all that it calls but raw system
	// calls: there is no runtime that could grow a stack or give memory.
	Do(output uintptr) uintptr
}

// Fork is a process that works: a fork that never becomes another program, because a start of the Go
// runtime (Task) takes longer than such work. It lives by the rules of syscall.forkAndExecInChild: one
// thread, no signals, raw system calls, no memory that was not there before. Of our descriptors it has
// only those that the work needs.
type Fork struct {
	Output *os.File // ends when the process ends
	pid    int
}

// StartFork starts a process, which ps(1) shows by its name: 15 bytes at most. The kernel sees the calling
// thread's namespaces in it.
func StartFork(name string, w Work) (*Fork, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	output, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	c := child{name: append([]byte(name), 0), null: null.Fd(), output: theirs.Fd(), work: w}
	c.keep = append(w.Keep(), c.output)
	slices.Sort(c.keep)
	pid, errno := c.start()
	if errno != 0 {
		output.Close()
		return nil, fmt.Errorf("start %s: %w", name, errno)
	}
	return &Fork{output, pid}, nil
}

// child is what the process knows.
type child struct {
	name   []byte // ends with a zero byte
	keep   []uintptr
	null   uintptr
	output uintptr
	work   Work
}

//go:noinline
//go:norace
//go:nocheckptr
func (c *child) start() (pid int, errno syscall.Errno) {
	var all, old [1]uint64
	all[0] = ^uint64(0)
	name := uintptr(unsafe.Pointer(&c.name[0]))
	// A signal would run Go's handler, which has no runtime in the child.
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	r, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || r != 0 {
		syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
		return int(r), errno
	}

	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NAME, name, 0)
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	for fd := uintptr(0); fd < 3; fd++ {
		syscall.RawSyscall(unix.SYS_DUP3, c.null, fd, 0)
	}
	// Nothing closes on exec, as there is none: the job's lock must not stay with the process.
	first := uintptr(3)
	for _, fd := range c.keep {
		if fd > first {
			syscall.RawSyscall(unix.SYS_CLOSE_RANGE, first, fd-1, 0)
		}
		first = fd + 1
	}
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, first, math.MaxUint32, 0)
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, c.work.Do(c.output), 0, 0)
	}
}

// Leave ends the process, or leaves it behind if it is deaf to signals.
func (p *Fork) Leave() {
	p.Output.Close()
	_ = unix.Kill(p.pid, unix.SIGKILL)
	p.reap()
}

// reap takes the exit code, if the process has ended.
func (p *Fork) reap() {
	for {
		if _, err := syscall.Wait4(p.pid, nil, unix.WNOHANG, nil); err != unix.EINTR {
			return
		}
	}
}
