// Package netns makes, enters and lets go of network namespaces.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrNotNetns means that a file is there but does not stand for a network
// namespace: what a missing bind mount leaves behind is an empty file.
var ErrNotNetns = errors.New("not a network namespace")

// NS is an open network namespace. It keeps the namespace alive until Close.
type NS struct {
	handle netns.NsHandle
	dev    uint64
	ino    uint64
}

// The main thread stays the main goroutine's alone, and so in the namespace
// that the process was started in. Go does not end it as it ends other threads
// (runtime/proc.go:mexit), and /proc/self/ns is the main thread's: were it used
// for Do once, the process would take a job's namespace for its own ever after.
func init() { runtime.LockOSThread() }

// Current opens the namespace that the process was started in, which for a
// prolog is the node's root namespace.
func Current() (*NS, error) {
	return Open("/proc/self/ns/net")
}

// Open opens the namespace that a file stands for. A file that is no network
// namespace is ErrNotNetns.
func Open(path string) (*NS, error) {
	// Without O_NONBLOCK a named pipe would be waited for until somebody writes.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	ns, err := of(fd)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return ns, nil
}

// FD returns the namespace's file descriptor, for messages that take one.
func (ns *NS) FD() int { return int(ns.handle) }

// String returns the device and inode number that tell this namespace from any
// other: "4:4026531840".
func (ns *NS) String() string { return fmt.Sprintf("%d:%d", ns.dev, ns.ino) }

// Close lets go of the namespace.
func (ns *NS) Close() error { return ns.handle.Close() }

// Do calls f on a thread of its own that is inside the namespace. f must not
// start goroutines that rely on it: those run in the process's own namespace.
func (ns *NS) Do(f func() error) error {
	t, err := ns.Enter()
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Do(f)
}

// Thread is a thread that is inside a namespace until it is closed, for work
// that goes there again and again.
type Thread struct {
	work chan func() error
	done chan error
}

// Enter starts a thread inside the namespace.
func (ns *NS) Enter() (*Thread, error) {
	t := start()
	err := t.Do(func() error {
		if err := netns.Set(ns.handle); err != nil {
			return fmt.Errorf("enter network namespace: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

func start() *Thread {
	t := &Thread{make(chan func() error), make(chan error)}
	go t.run()
	return t
}

// run works on a thread that nothing else uses before or after. Go ends the
// thread of a goroutine that returns locked, so that no other goroutine can
// ever wake up in a foreign namespace.
func (t *Thread) run() {
	runtime.LockOSThread()
	for f := range t.work {
		t.done <- f()
	}
}

// Do calls f on the thread. f must not start goroutines that rely on it.
func (t *Thread) Do(f func() error) error {
	t.work <- f
	return <-t.done
}

// Close ends the thread.
func (t *Thread) Close() { close(t.work) }

// Passing makes a new network namespace that has no name, and calls f on a thread inside it. The
// namespace ends with the call, and with all that is in it then.
func Passing(f func(*NS) error) error {
	t := start()
	defer t.Close()
	return t.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create network namespace: %w", err)
		}
		ns, err := Open("/proc/thread-self/ns/net")
		if err != nil {
			return err
		}
		defer ns.Close()
		return f(ns)
	})
}

// Create makes a new network namespace and binds it to path, which must not
// exist. After an error the file may be there; it stands for nothing then.
func Create(path string) (*NS, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o600)
	if err != nil {
		return nil, err
	}
	file.Close()
	t := start()
	defer t.Close()
	err = t.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create network namespace: %w", err)
		}
		if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind network namespace to %s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return Open(path)
}

// of makes an NS of a descriptor, and closes one that is no network namespace's.
func of(fd int) (*NS, error) {
	ns := &NS{handle: netns.NsHandle(fd)}
	// The answer to NS_GET_NSTYPE is the clone flag; any other file says ENOTTY (ioctl_ns(2)).
	kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE)
	if err != nil || kind != unix.CLONE_NEWNET {
		ns.Close()
		return nil, ErrNotNetns
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		ns.Close()
		return nil, fmt.Errorf("stat a network namespace: %w", err)
	}
	ns.dev, ns.ino = st.Dev, st.Ino
	return ns, nil
}
