package main

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// moveAhead moves the RDMA devices from one namespace to another, one after the other, in a thread of
// its own. The kernel waits for much in each move, and a move of an interface can go on meanwhile. The
// function that it returns waits for the next device, and returns at once if none moves (mode shared).
func moveAhead(it input, from, to int) (next func() error) {
	if len(it.rdma) == 0 {
		return func() error { return nil }
	}
	moved := make(chan error, len(it.rdma))
	go func() {
		runtime.LockOSThread()
		s, err := openIn(from)
		for _, index := range it.rdma {
			if err == nil {
				err = s.moveRDMA(index, to)
			}
			moved <- err
		}
	}()
	return func() error { return <-moved }
}

// openIn opens a socket for RDMA devices. The thread that moves such a device must be where the device
// is, as must the socket (device.c:ib_device_set_netns_put).
func openIn(namespace int) (socket, error) {
	if err := unix.Setns(namespace, unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("enter a namespace: %w", err)
	}
	return open(unix.NETLINK_RDMA)
}
