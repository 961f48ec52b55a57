package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// in gives a job what the input names.
func in(it input) error {
	host, err := enterNew(it.netns)
	if err != nil {
		return err
	}
	job, err := open(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	const loopback = 1
	if err := job.setLink(loopback, "", 0); err != nil {
		return err
	}
	if err := skipDAD(); err != nil {
		return err
	}
	namespace, err := unix.Open(it.netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", it.netns, err)
	}
	// The namespace is complete, so devices can come.
	next := moveAhead(it, host, namespace)
	if err := unix.Setns(host, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter the node's namespace: %w", err)
	}
	if err := makeNodes(it); err != nil {
		return err
	}
	return moveLinks(it, namespace, job, next)
}

// enterNew makes a namespace, binds it to a path and returns the one that the thread was in.
func enterNew(path string) (host int, err error) {
	if host, err = unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return 0, fmt.Errorf("open the node's namespace: %w", err)
	}
	if err := unix.Mknod(path, unix.S_IFREG|0o600, 0); err != nil {
		return 0, fmt.Errorf("make %s: %w", path, err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return 0, fmt.Errorf("make a namespace: %w", err)
	}
	if err := unix.Mount("/proc/self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
		return 0, fmt.Errorf("bind the namespace to %s: %w", path, err)
	}
	return host, nil
}

// skipDAD has IPv6 addresses that arrive be of use, and have their GIDs, at once.
func skipDAD() error {
	fd, err := unix.Open("/proc/sys/net/ipv6/conf/default/accept_dad", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil // a kernel without IPv6
	}
	if err != nil {
		return fmt.Errorf("open accept_dad: %w", err)
	}
	if _, err := unix.Write(fd, []byte("0")); err != nil {
		return fmt.Errorf("write accept_dad: %w", err)
	}
	return nil
}

// moveLinks takes the interfaces to the job, each after its RDMA device: one message each, since each
// takes the kernel's RTNL lock.
func moveLinks(it input, namespace int, job socket, next func() error) error {
	if len(it.links) == 0 {
		return nil
	}
	s, err := open(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	made := 0
	for _, l := range it.links {
		if err := next(); err != nil {
			return err
		}
		has := s
		index, err := s.remade(l)
		if errors.Is(err, unix.ENOENT) {
			// Since 6.17 it is made in the job, under the kernel's next name.
			has = job
			index, err = job.find(l, "ib"+strconv.Itoa(made))
			made++
		}
		if err != nil {
			return err
		}
		if err := has.setLink(index, l.name, namespace); err != nil {
			return err
		}
		if err := job.setNetwork(l, index); err != nil {
			return err
		}
	}
	return nil
}

// makeNodes makes the job's /dev/infiniband; the node's own nodes are restricted already.
func makeNodes(it input) error {
	if err := unix.Mkdir(it.dev, 0o700); err != nil {
		return fmt.Errorf("make %s: %w", it.dev, err)
	}
	if err := unix.Mount("floor", it.dev, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k,nr_inodes=1k"); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", it.dev, err)
	}
	for _, n := range it.nodes {
		path := filepath.Join(it.dev, n.name)
		if err := unix.Mknod(path, unix.S_IFCHR|0o600, n.number); err != nil {
			return fmt.Errorf("make %s: %w", path, err)
		}
		if err := unix.Chown(path, it.uid, it.gid); err != nil {
			return fmt.Errorf("give away %s: %w", path, err)
		}
	}
	return nil
}
