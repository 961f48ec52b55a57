package udev

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/poll"
)

// Arrivals is a socket by which the kernel tells of devices that come to the network
// namespace that the calling thread was in when it was opened.
type Arrivals struct{ fd int }

// NewArrivals opens a socket that hears of devices from now on.
func NewArrivals() (*Arrivals, error) {
	fd, err := listenTo(kernelGroup)
	if err != nil {
		return nil, fmt.Errorf("hear the kernel's events: %w", err)
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
	lost, err := each(a.fd, make([]byte, maxEvent), func(event []byte) { came = came || arrival(event) })
	if err != nil {
		return false, fmt.Errorf("read the kernel's events: %w", err)
	}
	return came || lost, nil // anything may be among what is lost
}

// arrival tells an event of a device that comes, or that comes from another namespace, as
// lib/kobject_uevent.c writes it: ACTION@PATH, and KEY=VALUE, each with a zero at its end.
func arrival(event []byte) bool {
	action, _, _ := bytes.Cut(event, []byte("@"))
	if string(action) != "add" && string(action) != "move" {
		return false
	}
	return slices.Contains([]string{"net", "infiniband", "infiniband_verbs"}, string(property(event, "SUBSYSTEM")))
}
