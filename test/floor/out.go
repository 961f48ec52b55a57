package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// out returns to the node what the job has.
func out(it input) error {
	host, job, home, err := enter(it.netns)
	if err != nil {
		return err
	}
	if err := bringLinks(it, host, home, moveAhead(it, job, host)); err != nil {
		return err
	}
	if err := restrictNodes(it); err != nil {
		return err
	}
	if err := unix.Unmount(it.dev, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", it.dev, err)
	}
	if err := unix.Rmdir(it.dev); err != nil {
		return fmt.Errorf("remove %s: %w", it.dev, err)
	}
	if err := unix.Unmount(it.netns, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", it.netns, err)
	}
	if err := unix.Unlink(it.netns); err != nil {
		return fmt.Errorf("remove %s: %w", it.netns, err)
	}
	return nil
}

// enter enters the job's namespace. It returns the one that the thread was in, with a socket of it, and
// the job's.
func enter(path string) (host, job int, home socket, err error) {
	if host, err = unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return 0, 0, 0, fmt.Errorf("open the node's namespace: %w", err)
	}
	if home, err = open(unix.NETLINK_ROUTE); err != nil {
		return 0, 0, 0, err
	}
	if job, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return 0, 0, 0, fmt.Errorf("open %s: %w", path, err)
	}
	if err := unix.Setns(job, unix.CLONE_NEWNET); err != nil {
		return 0, 0, 0, fmt.Errorf("enter %s: %w", path, err)
	}
	return host, job, home, nil
}

// bringLinks returns the interfaces, each after its RDMA device. One that the device's move has
// made again is there already, down and under its name.
func bringLinks(it input, host int, home socket, next func() error) error {
	if len(it.links) == 0 {
		return nil
	}
	job, err := open(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	for _, l := range it.links {
		if err := next(); err != nil {
			return err
		}
		index, err := home.find(l, l.name)
		if err != nil {
			return err
		}
		if l.index == 0 {
			err = home.setLink(index, "", 0)
		} else {
			err = job.setLink(index, l.name, host)
		}
		if err != nil {
			return err
		}
		if err := home.setNetwork(l, index); err != nil {
			return err
		}
	}
	return nil
}

// restrictNodes restricts the node's own device nodes, which the move of their RDMA
// device made again with the kernel's modes.
func restrictNodes(it input) error {
	if len(it.rdma) == 0 {
		return nil
	}
	for _, n := range it.nodes {
		if err := unix.Chmod(n.path, 0o600); err != nil {
			return fmt.Errorf("restrict %s: %w", n.path, err)
		}
	}
	return nil
}
