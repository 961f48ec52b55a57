package mover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"gresnet/lib/rdma"
)

// connection is the descriptor on which the child is asked: the first one after the standard streams.
const connection = 3

// Serve is the child: it carries out moves, one after the other, until nobody
// asks any more. The caller must be the main goroutine, whose thread it takes
// into the namespaces that devices are moved out of.
func Serve() error {
	for {
		request, fds, err := receive()
		if err != nil || request == nil {
			return err
		}
		errno := move(binary.NativeEndian.Uint32(request), fds[0], fds[1])
		for _, fd := range fds {
			unix.Close(fd) // the lock among them: the move is done
		}
		answer := binary.NativeEndian.AppendUint32(nil, uint32(errno))
		if err := unix.Sendmsg(connection, answer, nil, nil, unix.MSG_NOSIGNAL); err != nil {
			return fmt.Errorf("answer a move: %w", err)
		}
	}
}

// receive waits for a request with its three descriptors; nil is the end.
func receive() (request []byte, fds []int, err error) {
	request = make([]byte, 4)
	rights := make([]byte, unix.CmsgSpace(3*4))
	n, size, _, _, err := unix.Recvmsg(connection, request, rights, unix.MSG_CMSG_CLOEXEC|unix.MSG_WAITALL)
	if err != nil {
		return nil, nil, fmt.Errorf("wait for a move: %w", err)
	}
	if n == 0 {
		return nil, nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 || n != len(request) {
		return nil, nil, fmt.Errorf("read a request for a move: %d bytes, %d messages: %w", n, len(messages), err)
	}
	fds, err = unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 3 {
		return nil, nil, fmt.Errorf("read a request for a move: %d descriptors: %w", len(fds), err)
	}
	return request, fds, nil
}

func move(index uint32, from, to int) syscall.Errno {
	err := unix.Setns(from, unix.CLONE_NEWNET)
	if err == nil {
		err = moveHere(index, to)
	}
	var errno syscall.Errno
	if err != nil && !errors.As(err, &errno) {
		errno = unix.EIO
	}
	return errno
}

func moveHere(index uint32, to int) error {
	c, err := rdma.Dial()
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Move(index, to)
}
