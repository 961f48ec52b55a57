// Package detach does work in a process that can be left behind, because the kernel may not come back from it
// and is deaf to signals meanwhile: a Task of the program, a Fork, or a Fork that moves an RDMA device (Move).
//
// The process has a session of its own, so that slurmd does not end it, and none of our standard streams, for
// whose end slurmd waits, nor any lock that it was not given.
package detach

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
)

// ErrHeldUp means that the work was not done in time and is still under way.
var ErrHeldUp = errors.New("no answer")

// socket is the descriptor by which a process is heard.
const socket = 3

// Task is a part of the program, by the name under which ps(1) shows it: 15 bytes at most. It asks the kernel
// about processes and files of users, and some of that waits for a user's file server. It runs as a program
// of its own, since it takes memory and threads.
type Task string

// New makes a task. Call it when packages are initialized: a process that was
// started as that task runs it then, and ends.
func New(name string, run func(args []string, say Say) error) Task {
	if os.Args[0] == name {
		// Without it ps(1) shows "exe", which is not worth an error.
		if text, err := unix.BytePtrFromString(name); err == nil {
			_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(text)), 0, 0, 0)
		}
		if say(at, -1) != nil || run(os.Args[1:], say) != nil || say(done, -1) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	return Task(name)
}

// Say sends a message, at most maxMessage long, and a descriptor with it unless that is -1.
type Say func(message string, fd int) error

// At says what the task looks at now. Who leaves it behind can tell then whose fault that is.
func (s Say) At(what string) error { return s(at+what, -1) }

// What a task says besides: what it is at, first that it has begun, and that it has done all.
const (
	at   = "at "
	done = "done"
)

// maxMessage bounds a message. What is longer is cut off.
const maxMessage = 8 << 10

func say(message string, fd int) error {
	if len(message) > maxMessage {
		message = message[:maxMessage]
	}
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	for {
		err := unix.Sendmsg(socket, []byte(message), rights, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// Process is a task that runs.
type Process struct {
	cmd    *exec.Cmd
	conn   *net.UnixConn
	buffer []byte
	rights []byte
}

// Ask starts a task, and hears it: see Listen. The time until then begins when the task does: how long a program
// takes to start is for the node's load to decide, and for nobody whom the task asks.
func (p Task) Ask(until time.Time, most time.Duration, hear func(message string, fd int) error, args ...string) (where string, err error) {
	left := time.Until(until)
	process, err := p.Start(nil, args...)
	if err != nil {
		return "", err
	}
	return process.ask(left, most, hear)
}

func (p *Process) ask(left, most time.Duration, hear func(message string, fd int) error) (where string, err error) {
	if _, _, err := p.hear(time.Now().Add(poll.TaskStart)); err != nil {
		p.leave()
		return "", err
	}
	return p.Listen(time.Now().Add(left), most, hear)
}

// Start starts a task, in the calling thread's namespaces. It keeps a file open, such as a lock, until it ends;
// nil: none.
func (p Task) Start(file *os.File, args ...string) (*Process, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), string(p)), os.NewFile(uintptr(pair[1]), string(p))
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{string(p)}, args...)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs} // the first one is number 3, socket
	if file != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, hint.Join(fmt.Errorf("start %s: %w", p, err), conn.Close())
	}
	return &Process{cmd, conn.(*net.UnixConn), make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))}, nil
}

// Listen calls hear with each message that comes until then, and the descriptor that came with it or -1, until
// the task has done all. Then it ends the task, or leaves it behind if that is deaf to signals. An error, such as
// ErrHeldUp, comes with what the task was at, as far as it has said that. most bounds the wait for one message; 0:
// nothing does.
func (p *Process) Listen(until time.Time, most time.Duration, hear func(message string, fd int) error) (where string, err error) {
	defer p.leave()
	for {
		end := until
		if soon := time.Now().Add(most); most > 0 && soon.Before(until) {
			end = soon
		}
		message, fd, err := p.hear(end)
		if err != nil || message == done {
			return where, err
		}
		if what, is := strings.CutPrefix(message, at); is {
			where = what
		} else if err := hear(message, fd); err != nil {
			return where, err
		}
	}
}

// hear returns the next message, and the descriptor that came with it or -1. It is
// ErrHeldUp if none comes until then, and io.EOF if the process ends before it has done all.
func (p *Process) hear(until time.Time) (message string, fd int, err error) {
	if err := p.conn.SetReadDeadline(until); err != nil {
		return "", -1, err
	}
	n, nrights, _, _, err := p.conn.ReadMsgUnix(p.buffer, p.rights)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return "", -1, ErrHeldUp
	}
	if err != nil {
		return "", -1, err
	}
	fd = -1
	messages, err := unix.ParseSocketControlMessage(p.rights[:nrights])
	if err == nil && len(messages) > 0 {
		fds, err := unix.ParseUnixRights(&messages[0])
		if err == nil && len(fds) > 0 {
			fd = fds[0]
		}
	}
	return string(p.buffer[:n]), fd, err
}

func (p *Process) leave() {
	p.conn.Close()
	p.cmd.Process.Kill()
	go p.cmd.Wait()
}
