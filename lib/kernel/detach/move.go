package detach

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errHangs means that a move was not done in time and is still under way.
var errHangs = errors.New("the move hangs in the kernel")

// Move is a move of an RDMA device that was started. The kernel carries a move out in its caller, without a
// time limit and deaf to signals: a kernel user that does not let go of the device (Lustre's o2iblnd, say)
// would hang the prolog for good.
//
// Of all descriptors the process keeps the HCA's lock: an abandoned move may land at any later time, and
// until then the HCA is nowhere, whatever a look says.
type Move struct{ process *Fork }

// StartMove sends a request for a move to a namespace over an RDMA netlink socket, on
// which nobody else may wait for an answer. The calling goroutine must be locked to a
// thread that is in the namespace that has the device. The lock stays with the move
// until it is done, also when this process gives up or dies.
func StartMove(socket, netns int, request []byte, lock *os.File) (*Move, error) {
	p, err := StartFork("gresnet-mover", &mover{
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
func (m *Move) Wait(deadline time.Time) error { return result(m.process.wait(deadline)) }

// result is how a move ended by how its process did: its exit code is the kernel's errno.
func result(code int, err error) error {
	switch {
	case errors.Is(err, ErrHeldUp):
		return errHangs
	case err != nil:
		return fmt.Errorf("the process that moves: %w", err)
	case code != 0:
		return syscall.Errno(code)
	}
	return nil
}

// mover is the work of the process that moves.
type mover struct {
	socket  uintptr // RDMA netlink, of the namespace that has the device
	netns   uintptr // where the device goes: the request has its number
	lock    uintptr
	request []byte
	answer  []byte
}

// Keep returns what the move needs, and the HCA's lock.
func (c *mover) Keep() []uintptr { return []uintptr{c.socket, c.netns, c.lock} }

// Do moves, and returns the kernel's errno.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *mover) Do(uintptr) uintptr {
	// netlink(7): a request is carried out within sendto; what is read then is
	// a header of 16 bytes and, of an acknowledgement, a negative errno.
	request, size := uintptr(unsafe.Pointer(&c.request[0])), uintptr(len(c.request))
	answer, room := uintptr(unsafe.Pointer(&c.answer[0])), uintptr(len(c.answer))
	_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, c.socket, request, size, 0, 0, 0)
	if errno == 0 {
		var n uintptr
		n, _, errno = syscall.RawSyscall6(unix.SYS_RECVFROM, c.socket, answer, room, 0, 0, 0)
		if errno == 0 && n < 20 {
			errno = unix.EBADMSG
		}
		if errno == 0 {
			errno = syscall.Errno(-*(*int32)(unsafe.Pointer(&c.answer[16])))
		}
	}
	return uintptr(errno)
}
