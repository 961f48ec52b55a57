// Package mover moves RDMA devices in a process of its own, because the kernel
// carries a move out in its caller, without a time limit and deaf to signals:
// a kernel user that does not let go of the device (Lustre's o2iblnd, say)
// would hang the prolog for good.
//
// The child has a session of its own, so that slurmd does not end it, and none
// of our standard streams, for whose end slurmd waits. With each move it is
// given the HCA's lock: an abandoned move may land at any later time, and until
// then the HCA is nowhere, whatever a look says.
package mover

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Name is the child's name for itself: Serve is for a process that has it.
const Name = "gresnet-mover"

// ErrHangs means that a move was not done in time and is still under way.
var ErrHangs = errors.New("the move hangs in the kernel")

// Mover is the child, which is started for the first move and serves all.
type Mover struct {
	// Timeout bounds one move.
	Timeout time.Duration
	conn    *net.UnixConn
}

// Move moves the RDMA device with an index from one network namespace to
// another. The lock stays with the child until the move is done, also when
// this process gives up or dies.
func (m *Mover) Move(ctx context.Context, index uint32, from, to int, lock *os.File) error {
	if m.conn == nil {
		if err := m.start(); err != nil {
			return fmt.Errorf("start the process that moves: %w", err)
		}
	}
	request := binary.NativeEndian.AppendUint32(nil, index)
	rights := unix.UnixRights(from, to, int(lock.Fd()))
	if _, _, err := m.conn.WriteMsgUnix(request, rights, nil); err != nil {
		m.Close()
		return fmt.Errorf("ask for the move: %w", err)
	}
	errno, err := m.answer(ctx)
	if err != nil {
		m.Close() // it is of no use for another move
		return err
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// answer waits for the end of a move, no longer than is allowed.
func (m *Mover) answer(ctx context.Context) (syscall.Errno, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Timeout)
	defer cancel()
	end, _ := ctx.Deadline()
	if err := m.conn.SetReadDeadline(end); err != nil {
		return 0, err
	}
	var answer [4]byte
	_, err := io.ReadFull(m.conn, answer[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, ErrHangs
	}
	if err != nil {
		return 0, fmt.Errorf("wait for the end of the move: %w", err)
	}
	return syscall.Errno(binary.NativeEndian.Uint32(answer[:])), nil
}

// start runs this program again, as the child.
func (m *Mover) start() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "mover"), os.NewFile(uintptr(pair[1]), "mover")
	defer theirs.Close()
	defer ours.Close()
	conn, err := net.FileConn(ours) // has a descriptor of its own
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{Name},
		Env:         []string{},
		Dir:         "/",
		ExtraFiles:  []*os.File{theirs},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := cmd.Start(); err != nil {
		conn.Close()
		return err
	}
	m.conn = conn.(*net.UnixConn)
	// Nobody waits for it: it ends with the connection, or when its move lands.
	return cmd.Process.Release()
}

// Close ends the child, unless a move hangs in it.
func (m *Mover) Close() {
	if m.conn != nil {
		m.conn.Close()
		m.conn = nil
	}
}
