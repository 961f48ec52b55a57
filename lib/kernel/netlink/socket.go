// Package netlink makes requests of the kernel over netlink sockets, and puts their messages
// together and takes them apart. A run does hundreds of requests, one at a time: so each takes
// two system calls, all share one buffer, and the Go scheduler is not told of calls that the
// kernel carries out on the spot. The package does without what vishvananda/netlink has for
// programs with many goroutines.
package netlink

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/poll"
)

// Socket is a netlink socket of the network namespace that the calling thread was in when
// it was opened.
type Socket struct {
	fd     int
	port   uint32 // the kernel's address for this socket
	seq    uint32
	buffer []byte // of size, once anything was received
}

// size is more than the kernel sends at once (af_netlink.c:netlink_dump).
const size = 64 << 10

// Open opens a socket of a protocol, as unix.NETLINK_ROUTE.
func Open(protocol int) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	s := &Socket{fd: fd}
	if err := s.bind(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Socket) bind() error {
	if err := unix.Bind(s.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("bind a netlink socket: %w", err)
	}
	address, err := unix.Getsockname(s.fd)
	if err != nil {
		return fmt.Errorf("read a netlink socket's address: %w", err)
	}
	s.port = address.(*unix.SockaddrNetlink).Pid
	return nil
}

// set sets an option of SOL_NETLINK.
func (s *Socket) set(option, value int) error {
	return unix.SetsockoptInt(s.fd, unix.SOL_NETLINK, option, value)
}

// FD returns the socket's file descriptor.
func (s *Socket) FD() int { return s.fd }

// Close closes the socket.
func (s *Socket) Close() { unix.Close(s.fd) }

// Request returns a message with its header. Flags are NLM_F_*, and NLM_F_REQUEST is always there.
func (s *Socket) Request(kind, flags int, body []byte) []byte {
	s.seq++
	m := make([]byte, 0, unix.SizeofNlMsghdr+len(body))
	m = native.AppendUint32(m, uint32(unix.SizeofNlMsghdr+len(body)))
	m = native.AppendUint16(m, uint16(kind))
	m = native.AppendUint16(m, uint16(flags|unix.NLM_F_REQUEST))
	m = native.AppendUint32(m, s.seq)
	m = native.AppendUint32(m, 0) // to the kernel
	return append(m, body...)
}

var native = binary.NativeEndian

// errInterrupted is a dump of what changed meanwhile, which lacks something, or has it twice.
var errInterrupted = errors.New("the dump was disturbed")

// Do sends a request and returns what the answers of a kind have behind their
// headers, 0: of all kinds. What the kernel refuses is its syscall.Errno. A dump that
// is disturbed, by the moves of other jobs say, is asked for again.
func (s *Socket) Do(kind, flags int, want uint16, body []byte) (answers [][]byte, err error) {
	again := func() { answers = nil }
	err = s.Each(kind, flags, want, body, again, func(answer []byte) error {
		answers = append(answers, append([]byte(nil), answer...))
		return nil
	})
	return answers, err
}

// asked returns how many requests the socket has made: a test counts them.
func (s *Socket) asked() int { return int(s.seq) }

// ErrStop is what a function returns that wants no more answers. The socket is to be closed then: the
// kernel has more to say.
var ErrStop = errors.New("no more answers are wanted")

// Each is Do for answers that may be many: each is good until the function that it is
// given to returns. Before a dump is asked for again, again is called.
func (s *Socket) Each(kind, flags int, want uint16, body []byte, again func(), each func([]byte) error) error {
	for try := 1; ; try++ {
		err := s.once(s.Request(kind, flags, body), want, each)
		disturbed := errors.Is(err, errInterrupted) || errors.Is(err, unix.EINTR)
		if !disturbed || !poll.Again(try) {
			return err
		}
		again()
	}
}

// atOnce bounds how many requests doAll sends by one call. The kernel refuses a call that does not fit
// into the socket's send buffer, and a refusal of each must fit into the receive buffer.
const atOnce = 256

// doAll sends requests for changes, many by one call. It returns the first refusal, and which request
// that is about. The kernel carries out the others of that call nevertheless.
func (s *Socket) doAll(kind, flags int, bodies [][]byte) (refused int, err error) {
	for first := 0; first < len(bodies); first += atOnce {
		last := min(first+atOnce, len(bodies)) - 1
		var call []byte
		for i := first; i < last; i++ {
			call = append(call, s.Request(kind, flags, bodies[i])...)
			for len(call)%4 != 0 {
				call = append(call, 0)
			}
		}
		call = append(call, s.Request(kind, flags|unix.NLM_F_ACK, bodies[last])...)
		if refused, err := s.refusal(call, uint32(last-first)); err != nil {
			return first + refused, err
		}
	}
	return 0, nil
}

// refusal sends a batch of requests; before is how many stand before the last one. It returns the number
// of the first request that the kernel refuses, and why. The kernel acknowledges only the last one.
func (s *Socket) refusal(call []byte, before uint32) (refused int, failed error) {
	if err := s.send(call); err != nil {
		return 0, err
	}
	for {
		messages, err := s.receive()
		if err != nil {
			return 0, err
		}
		for len(messages) > 0 {
			var m message
			if m, messages, err = next(messages); err != nil {
				return 0, err
			}
			back := s.seq - m.seq
			if m.port != s.port || m.kind != unix.NLMSG_ERROR || back > before {
				continue
			}
			if err := m.result(false); err != nil && failed == nil {
				refused, failed = int(before-back), err
			}
			if back == 0 {
				return refused, failed
			}
		}
	}
}

// once reads all that the kernel has to say, also if each fails: the next request's
// answers come after it.
func (s *Socket) once(request []byte, want uint16, each func([]byte) error) (failed error) {
	if err := s.send(request); err != nil {
		return err
	}
	interrupted := false
	for {
		messages, err := s.receive()
		if err != nil {
			return err
		}
		for len(messages) > 0 {
			var m message
			if m, messages, err = next(messages); err != nil {
				return err
			}
			if m.seq != s.seq || m.port != s.port {
				continue
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			if m.kind == unix.NLMSG_DONE || m.kind == unix.NLMSG_ERROR {
				return cmp.Or(m.result(interrupted), failed)
			}
			if failed == nil && (want == 0 || m.kind == want) {
				failed = each(m.body)
			}
			if errors.Is(failed, ErrStop) {
				return failed
			}
			if m.flags&unix.NLM_F_MULTI == 0 {
				return failed
			}
		}
	}
}

type message struct {
	kind, flags uint16
	seq, port   uint32
	body        []byte
}

// next takes the first of some messages apart.
func next(messages []byte) (m message, rest []byte, err error) {
	if len(messages) < unix.SizeofNlMsghdr {
		return message{}, nil, fmt.Errorf("a netlink message of %d bytes", len(messages))
	}
	length := int(native.Uint32(messages))
	if length < unix.SizeofNlMsghdr || length > len(messages) {
		return message{}, nil, fmt.Errorf("a netlink message says that it has %d bytes, %d are left", length, len(messages))
	}
	m = message{
		kind:  native.Uint16(messages[4:]),
		flags: native.Uint16(messages[6:]),
		seq:   native.Uint32(messages[8:]),
		port:  native.Uint32(messages[12:]),
		body:  messages[unix.SizeofNlMsghdr:length],
	}
	return m, messages[min((length+3)&^3, len(messages)):], nil
}

// result is how a request ended, by its last message.
func (m message) result(interrupted bool) error {
	if len(m.body) >= 4 {
		if code := int32(native.Uint32(m.body)); code != 0 {
			return syscall.Errno(-code)
		}
	}
	if interrupted {
		return errInterrupted
	}
	return nil
}

// send sends a request, which the kernel has carried out then. Raw system calls keep
// the scheduler from looking for other work: there is none.
func (s *Socket) send(request []byte) error {
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(&request[0])), uintptr(len(request)), 0, 0, 0)
		if errno == unix.EINTR {
			continue // nothing was sent
		}
		if errno != 0 {
			return errno
		}
		return nil
	}
}

// receive returns what the kernel sends next: good until it is called again. It is there: the
// kernel answers before a request returns, and goes on with a dump before what it had of
// it is received (af_netlink.c:netlink_rcv_skb, netlink_recvmsg).
func (s *Socket) receive() ([]byte, error) {
	if s.buffer == nil {
		s.buffer = make([]byte, size)
	}
	for {
		var from unix.RawSockaddrNetlink
		length := uint32(unsafe.Sizeof(from))
		got, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.fd), uintptr(unsafe.Pointer(&s.buffer[0])), uintptr(len(s.buffer)),
			unix.MSG_TRUNC|unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&length)))
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return nil, errors.New("the kernel has not answered")
		case errno != 0:
			return nil, errno
		case from.Pid != 0:
			continue // not from the kernel
		case int(got) > len(s.buffer):
			return nil, fmt.Errorf("an answer of %d bytes is more than the kernel sends at once", got)
		}
		return s.buffer[:got], nil
	}
}
