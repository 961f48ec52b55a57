package detach

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	// ErrNotBegun means that a move was not begun: one before it failed, or has not ended.
	ErrNotBegun = errors.New("the move was not begun")
	// errHangs means that a move was not done in time and is still under way.
	errHangs error = hangs{}
)

type hangs struct{}

func (hangs) Error() string { return "the move hangs in the kernel" }

// Is says that time alone was lacking.
func (hangs) Is(target error) bool { return target == context.DeadlineExceeded }

// Order is a move of an RDMA device: a request, and the HCA's lock.
type Order struct {
	Request []byte
	Lock    *os.File
}

// Moves are moves of RDMA devices that were started, one after the other in one process. The kernel carries a
// move out in its caller, without a time limit and deaf to signals: a kernel user that does not let go of the
// device (Lustre's o2iblnd, say) would hang the prolog for good.
//
// The process takes the HCA's lock before a move and releases it after that, whatever becomes of this process:
// an abandoned move may land at any later time, and until then the HCA is nowhere, whatever a look says. It
// begins no move after one that failed or that nobody waits for any more, as when this process is dead.
type Moves struct {
	process *Fork
	left    int
	ended   bool
}

// StartMoves sends requests for moves to a namespace over an RDMA netlink socket, on which nobody else may wait
// for an answer. The calling goroutine must be locked to a thread that is in the namespace that has the devices.
func StartMoves(socket, netns int, orders []Order) (*Moves, error) {
	m := &mover{socket: uintptr(socket), netns: uintptr(netns), answer: make([]byte, os.Getpagesize())}
	for _, o := range orders {
		m.requests, m.locks = append(m.requests, o.Request), append(m.locks, o.Lock.Fd())
	}
	p, err := StartFork("gresnet-mover", m)
	if err != nil {
		return nil, fmt.Errorf("start the process that moves: %w", err)
	}
	return &Moves{process: p, left: len(orders)}, nil
}

// Next waits until the kernel has carried the next move out, but not past the deadline. A move that has ended it
// finds however late it is called.
func (m *Moves) Next(deadline time.Time) error {
	if m.ended {
		return ErrNotBegun
	}
	if least := time.Now().Add(time.Second); deadline.Before(least) {
		deadline = least
	}
	err := m.next(deadline)
	if m.left--; m.left == 0 || err != nil {
		m.leave()
	}
	return err
}

func (m *Moves) next(deadline time.Time) error {
	if err := m.process.Output.SetReadDeadline(deadline); err != nil {
		return err
	}
	var errno [4]byte
	_, err := m.process.Output.Read(errno[:])
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errHangs
	case err != nil:
		return fmt.Errorf("the process that moves was ended: %w", err)
	}
	if errno := syscall.Errno(binary.NativeEndian.Uint32(errno[:])); errno != 0 {
		return errno
	}
	return nil
}

// leave has no more moves begin. One that is under way ends when it ends.
func (m *Moves) leave() {
	m.ended = true
	m.process.Output.Close()
	m.process.reap()
}

// mover is the work of the process that moves.
type mover struct {
	socket   uintptr // RDMA netlink, of the namespace that has the devices
	netns    uintptr // where they go: the requests have its number
	locks    []uintptr
	requests [][]byte
	answer   []byte
	result   uint32
	poll     unix.PollFd
	now      unix.Timespec
}

// Keep returns what the moves need, and the HCAs' locks.
func (c *mover) Keep() []uintptr { return append([]uintptr{c.socket, c.netns}, c.locks...) }

// Do moves, and writes the kernel's errno of each move. It waits for the lock of each: who looks whether somebody
// holds a lock has it for a moment. If nobody reads what Do writes by then, Do moves nothing: an epilog looks for
// the device.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *mover) Do(output uintptr) uintptr {
	for i := range c.requests {
		_, _, errno := syscall.RawSyscall(unix.SYS_FLOCK, c.locks[i], unix.LOCK_EX, 0)
		if c.isAlone(output) {
			return 1
		}
		if errno == 0 {
			errno = c.move(i)
		}
		syscall.RawSyscall(unix.SYS_CLOSE, c.locks[i], 0, 0)
		c.result = uint32(errno)
		n, _, _ := syscall.RawSyscall(unix.SYS_WRITE, output, uintptr(unsafe.Pointer(&c.result)), 4)
		if n != 4 || errno != 0 {
			return 1
		}
	}
	return 0
}

// isAlone tells whether nobody has the other end of a pipe.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *mover) isAlone(pipe uintptr) bool {
	c.poll = unix.PollFd{Fd: int32(pipe)}
	n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&c.poll)), 1, uintptr(unsafe.Pointer(&c.now)), 0, 0, 0)
	return n != 0 || errno != 0
}

// move moves one, and returns the kernel's errno.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *mover) move(i int) (errno syscall.Errno) {
	// netlink(7): a request is carried out within sendto; what is read then is
	// a header of 16 bytes and, of an acknowledgement, a negative errno.
	request, size := uintptr(unsafe.Pointer(&c.requests[i][0])), uintptr(len(c.requests[i]))
	answer, room := uintptr(unsafe.Pointer(&c.answer[0])), uintptr(len(c.answer))
	_, _, errno = syscall.RawSyscall6(unix.SYS_SENDTO, c.socket, request, size, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, c.socket, answer, room, 0, 0, 0)
	if errno == 0 && n < 20 {
		errno = unix.EBADMSG
	}
	if errno == 0 {
		errno = syscall.Errno(-*(*int32)(unsafe.Pointer(&c.answer[16])))
	}
	return errno
}
