package udev

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/words/poll"
)

// Arrivals is a socket by which the kernel tells of devices that come to the network
// namespace that the calling thread was in when it was opened.
type Arrivals struct{ fd int }

// NewArrivals opens a socket that hears of devices from now on.
func NewArrivals() (*Arrivals, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open a socket for the kernel's events: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind a socket for the kernel's events: %w", err)
	}
	return &Arrivals{fd}, nil
}

// Close closes the socket.
func (a *Arrivals) Close() { unix.Close(a.fd) }

// Wait waits until a network interface or an RDMA device comes, or for a time.
func (a *Arrivals) Wait(most time.Duration) error {
	begun := time.Now()
	for {
		left := most - time.Since(begun)
		if left <= 0 {
			return nil
		}
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(a.fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the kernel's events: %w", err)
		}
		came, err := a.drain()
		if err != nil {
			return err
		}
		if came {
			poll.Settle(min(poll.Burst, most))
			return nil
		}
	}
}

// drain reads what has been told, and tells whether an arrival was among it.
func (a *Arrivals) drain() (came bool, err error) {
	var event [4096]byte
	for {
		n, _, err := unix.Recvfrom(a.fd, event[:], 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return came, nil
		case errors.Is(err, unix.ENOBUFS):
			came = true // more than fits: anything may have come
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("read the kernel's events: %w", err)
		case err == nil:
			came = came || arrival(event[:n])
		}
	}
}

// arrival tells an event of a device that comes, or that comes from another namespace, as
// lib/kobject_uevent.c writes it: ACTION@PATH, and KEY=VALUE, each with a zero at its end.
func arrival(event []byte) bool {
	fields := bytes.Split(event, []byte{0})
	action, _, _ := bytes.Cut(fields[0], []byte("@"))
	if string(action) != "add" && string(action) != "move" {
		return false
	}
	for _, f := range fields[1:] {
		switch string(f) {
		case "SUBSYSTEM=net", "SUBSYSTEM=infiniband", "SUBSYSTEM=infiniband_verbs":
			return true
		}
	}
	return false
}
