package cli

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// datagram is a Unix socket that blocks: who sends to a receiver that has no room sleeps
// until there is some (af_unix.c:unix_dgram_sendmsg). One of package net, which does not
// block and is connected to nobody, would keep a processor busy meanwhile: for epoll it is
// writable always (af_unix.c:unix_dgram_poll).
type datagram struct {
	fd int
	to *unix.SockaddrUnix
}

// openDatagram opens a socket for what is sent to a path. Whether anybody receives there
// the first Send tells.
func openDatagram(path string) (*datagram, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a socket for %s: %w", path, err)
	}
	return &datagram{fd, &unix.SockaddrUnix{Name: path}}, nil
}

// Send sends a message. One that is larger than the socket may send is unix.EMSGSIZE, or
// unix.ENOBUFS.
func (d *datagram) Send(message []byte) error {
	return unix.Sendto(d.fd, message, unix.MSG_NOSIGNAL, d.to)
}

// Close closes the socket.
func (d *datagram) Close() error { return unix.Close(d.fd) }
