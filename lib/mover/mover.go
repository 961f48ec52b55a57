// Package mover moves RDMA devices in a process of its own, because the kernel
// carries a move out in its caller, without a time limit and deaf to signals:
// a kernel user that does not let go of the device (Lustre's o2iblnd, say)
// would hang the prolog for good.
//
// Of all descriptors the process keeps the HCA's lock: an abandoned move may land at
// any later time, and until then the HCA is nowhere, whatever a look says.
package mover

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"gresnet/lib/fork"
)

// ErrHangs means that a move was not done in time and is still under way.
var ErrHangs = errors.New("the move hangs in the kernel")

// Move is a move that was started.
type Move struct{ process *fork.Process }

// Start sends a request for a move to a namespace over an RDMA netlink socket, on
// which nobody else may wait for an answer. The calling goroutine must be locked to a
// thread that is in the namespace that has the device. The lock stays with the move
// until it is done, also when this process gives up or dies.
func Start(socket, netns int, request []byte, lock *os.File) (*Move, error) {
	p, err := fork.Start("gresnet-mover", &child{
		socket:  uintptr(socket),
		netns:   uintptr(netns),
		lock:    lock.Fd(),
		request: request,
		answer:  make([]byte, os.Getpagesize()),
	})
	if err != nil {
		return nil, fmt.Errorf("start the process that moves: %w", err)
	}
	return &Move{p}, nil
}

// Wait waits until the kernel has carried the move out, but not past the deadline.
func (m *Move) Wait(deadline time.Time) error { return result(m.process.Wait(deadline)) }

// result is how a move ended by how its process did: its exit code is the kernel's errno.
func result(code int, err error) error {
	switch {
	case errors.Is(err, fork.ErrHeldUp):
		return ErrHangs
	case err != nil:
		return fmt.Errorf("the process that moves: %w", err)
	case code != 0:
		return syscall.Errno(code)
	}
	return nil
}
