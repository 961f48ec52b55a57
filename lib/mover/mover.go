// Package mover moves RDMA devices in a process of its own, because the kernel
// carries a move out in its caller, without a time limit and deaf to signals:
// a kernel user that does not let go of the device (Lustre's o2iblnd, say)
// would hang the prolog for good.
//
// The child has a session of its own, so that slurmd does not end it, and none
// of our standard streams, for whose end slurmd waits. Of all descriptors it
// keeps the HCA's lock: an abandoned move may land at any later time, and until
// then the HCA is nowhere, whatever a look says.
package mover

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHangs means that a move was not done in time and is still under way.
var ErrHangs = errors.New("the move hangs in the kernel")

// Move is a move that was started.
type Move struct {
	pid    int
	result *os.File
}

// Start sends a request for a move to a namespace over an RDMA netlink socket, on
// which nobody else may wait for an answer. The calling goroutine must be locked to a
// thread that is in the namespace that has the device. The lock stays with the move
// until it is done, also when this process gives up or dies.
func Start(socket, netns int, request []byte, lock *os.File) (*Move, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	result, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	c := child{
		socket:  uintptr(socket),
		netns:   uintptr(netns),
		request: request,
		answer:  make([]byte, os.Getpagesize()),
		null:    null.Fd(),
		result:  theirs.Fd(),
		lock:    lock.Fd(),
		name:    []byte("gresnet-mover\x00"),
	}
	pid, errno := c.start()
	if errno != 0 {
		result.Close()
		return nil, fmt.Errorf("start the process that moves: %w", errno)
	}
	return &Move{pid, result}, nil
}

// Wait waits until the kernel has carried the move out, but not past the deadline.
func (m *Move) Wait(deadline time.Time) error {
	defer m.result.Close()
	if err := m.result.SetReadDeadline(deadline); err != nil {
		return err
	}
	// The child writes nothing: its end closes the pipe, and its exit code is the errno.
	_, err := m.result.Read(make([]byte, 1))
	how := 0
	if errors.Is(err, os.ErrDeadlineExceeded) {
		how = unix.WNOHANG // it may have ended long before anybody waited
	}
	ended, status, err := m.reap(how)
	if err != nil {
		return fmt.Errorf("wait for the process that moves: %w", err)
	}
	if !ended {
		return ErrHangs
	}
	if !status.Exited() {
		return fmt.Errorf("the process that moves was ended by %v", status.Signal())
	}
	if errno := syscall.Errno(status.ExitStatus()); errno != 0 {
		return errno
	}
	return nil
}

// reap takes the child's exit code, if it has ended.
func (m *Move) reap(how int) (ended bool, status syscall.WaitStatus, err error) {
	for {
		pid, err := syscall.Wait4(m.pid, &status, how, nil)
		if err != unix.EINTR {
			return pid == m.pid, status, err
		}
	}
}
