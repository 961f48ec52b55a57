// Package link reads, moves and restores network interfaces over rtnetlink.
// It acts in the network namespace of the calling thread.
package link

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gresnet/lib/meter"
	"gresnet/lib/socket"
)

var (
	// ErrNotFound means that no interface of the namespace is the one that was asked for.
	ErrNotFound = errors.New("no such network interface")
	// ErrNameTaken means that another interface has the name, or has it as an alternative name.
	ErrNameTaken = errors.New("another interface has that name")
)

// named says of a request that gives an interface a name what the kernel means.
func named(err error) error {
	switch {
	case errors.Is(err, unix.EEXIST):
		return ErrNameTaken
	case errors.Is(err, unix.ENODEV):
		return ErrNotFound
	}
	return err
}

// Conn is a connection to the namespace that the calling thread was in when it dialled.
type Conn struct {
	Carriers *Carriers // nil: nothing bounds the waits of a run
	socket   *socket.Netlink
}

// Dial opens a connection in the calling thread's network namespace.
func Dial() (*Conn, error) {
	s, err := socket.Open(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open rtnetlink: %w", err)
	}
	// With strict checking the kernel filters dumps by what the request names,
	// instead of sending all that the node has.
	if err := s.Set(unix.NETLINK_GET_STRICT_CHK, 1); err != nil {
		s.Close()
		return nil, fmt.Errorf("set strict checking on rtnetlink: %w", err)
	}
	return &Conn{socket: s}, nil
}

// Close closes the connection.
func (c *Conn) Close() { c.socket.Close() }

// Count has a meter count what is asked.
func (c *Conn) Count(m *meter.Meter) { c.socket.Meter = m }

// send does one request, and returns the answers of a kind.
func (c *Conn) send(kind, flags int, want uint16, body []byte) ([][]byte, error) {
	return c.socket.Do(kind, flags, want, body)
}

var native = binary.NativeEndian

// attribute appends one rtnetlink attribute to a message.
func attribute(m []byte, kind uint16, value []byte) []byte {
	m = native.AppendUint16(m, uint16(unix.SizeofRtAttr+len(value)))
	m = native.AppendUint16(m, kind)
	m = append(m, value...)
	for len(m)%4 != 0 {
		m = append(m, 0)
	}
	return m
}

// attr is one attribute of a message that was taken apart.
type attr struct {
	kind  uint16
	value []byte
}

// attributes takes apart what follows a message's fixed head.
func attributes(m []byte) ([]attr, error) {
	list := make([]attr, 0, min(len(m)/16, 64)) // about as many as there are
	for len(m) >= unix.SizeofRtAttr {
		size := int(native.Uint16(m))
		if size < unix.SizeofRtAttr || size > len(m) {
			return nil, fmt.Errorf("rtnetlink attribute of length %d, %d bytes are left", size, len(m))
		}
		list = append(list, attr{native.Uint16(m[2:]), m[unix.SizeofRtAttr:size]})
		m = m[min((size+3)&^3, len(m)):]
	}
	return list, nil
}
