// Package udev tells when udev is done with the events of network and RDMA devices.
//
// udev's queue file says whether udev has anything to do (udevadm(8), settle). But users make
// events, too: each FUSE mount is two, of a bdi device. So a watch hears the kernel's events
// and those that udev sends on when it is done, and compares their numbers.
//
// Arrivals hears the kernel's events of devices that come, and asks nothing of udev.
package udev

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
)

// Groups of NETLINK_KOBJECT_UEVENT (systemd src/libsystemd/sd-device/device-monitor-private.h).
const (
	kernelGroup = 1
	udevGroup   = 2
)

// ours are the subsystems whose events are waited for. In the node's network namespace
// root alone makes such devices come, go and change their names.
var ours = []string{"net", "infiniband", "infiniband_verbs", "infiniband_mad"}

// Watch hears events from when it was opened on.
type Watch struct {
	run    string // the node's /run/udev
	socket int

	mutex   sync.Mutex
	pending map[uint64]bool // the kernel's events that udev has not sent on yet
	lost    bool            // there was no room for some
	failed  error
	closed  bool

	asked, running bool // whether udevd runs, once that was asked
}

// Open begins a watch in the network namespace of the calling thread. run is the node's /run.
func Open(run string) (*Watch, error) {
	fd, err := listenTo(kernelGroup | udevGroup)
	if err != nil {
		return nil, fmt.Errorf("watch udev: %w", err)
	}
	w := &Watch{run: filepath.Join(run, "udev"), socket: fd, pending: map[uint64]bool{}}
	go w.listen()
	return w, nil
}

// Renew has udev handle devices once more, whose directories in /sys these are. A watch does not hear of events from
// before it was opened. But udev handles the events of one device in their order: when it is done with the new one, it
// is done with all. Renew passes over a device that goes meanwhile.
func Renew(dirs []string) error {
	for _, dir := range dirs {
		// Documentation/ABI/testing/sysfs-uevent. udev renames nothing at a change.
		err := os.WriteFile(filepath.Join(dir, "uevent"), []byte("change"), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("have udev handle %s again: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// listenTo opens a socket that hears the events of some groups.
func listenTo(groups uint32) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return -1, err
	}
	const room = 16 << 20
	err = hint.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room),
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}))
	if err != nil {
		return -1, hint.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// each calls take with each event that a socket has heard. lost tells whether there was no room for some.
func each(socket int, buffer []byte, take func(event []byte)) (lost bool, err error) {
	for {
		n, err := unix.Read(socket, buffer)
		switch {
		case err == nil:
			take(buffer[:n])
		case errors.Is(err, unix.EAGAIN):
			return lost, nil
		case errors.Is(err, unix.ENOBUFS):
			lost = true
		case !errors.Is(err, unix.EINTR):
			return lost, err
		}
	}
}

// Idle tells whether udev is done with all events of network and RDMA devices that have
// come since the watch was opened. A watch that missed some goes by the queue file alone.
//
// The queue file alone says too little: udev makes it when it reads an event, so there is none while
// udev waits for a processor. Where no udevd runs, nothing is waited for.
func (w *Watch) Idle() (bool, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.failed == nil {
		w.failed = w.hear(make([]byte, maxEvent))
	}
	missed := w.lost || w.failed != nil
	if len(w.pending) == 0 && !missed {
		return true, nil
	}
	_, err := os.Stat(filepath.Join(w.run, "queue"))
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return missed || !w.runs(), nil
}

// runs tells, once for all, whether udevd listens at its socket (udevadm(8), control).
func (w *Watch) runs() bool {
	if w.asked {
		return w.running
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: filepath.Join(w.run, "control")})
		unix.Close(fd)
	}
	w.asked, w.running = true, !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ECONNREFUSED)
	return w.running
}

// Close ends the watch. It does not wait for that.
func (w *Watch) Close() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.closed = true
}

// listen makes room for what comes until somebody asks.
func (w *Watch) listen() {
	defer unix.Close(w.socket)
	buffer := make([]byte, maxEvent)
	poll.Every(poll.Drained, func() bool { return w.goesOn(buffer) })
}

func (w *Watch) goesOn(buffer []byte) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.closed {
		return false
	}
	w.failed = w.hear(buffer)
	return w.failed == nil
}

// maxEvent is more than an event has: the kernel's has 2 KiB, and udev's properties of interfaces little more.
const maxEvent = 16 << 10

// hear takes what has come.
func (w *Watch) hear(buffer []byte) error {
	lost, err := each(w.socket, buffer, w.take)
	w.lost = w.lost || lost
	if err != nil {
		return fmt.Errorf("watch udev: %w", err)
	}
	return nil
}

func (w *Watch) take(message []byte) {
	number, done, err := parse(message)
	switch {
	case err != nil:
	case done:
		delete(w.pending, number)
	default:
		w.pending[number] = true
	}
}

var errNotOurs = errors.New("not an event of a network or RDMA device")

// parse returns an event's number, and whether udev is done with it. The kernel's begins with
// "ACTION@PATH"; udev's has a header of its own (systemd
// src/libsystemd/sd-device/device-monitor.c:monitor_netlink_header).
func parse(message []byte) (number uint64, done bool, err error) {
	const prefix = "libudev\x00"
	text := message
	if bytes.HasPrefix(message, []byte(prefix)) {
		const header = 24 // up to the properties' place and length
		if len(message) < header {
			return 0, true, errNotOurs
		}
		done = true
		from, length := binary.NativeEndian.Uint32(message[16:]), binary.NativeEndian.Uint32(message[20:])
		if uint64(from)+uint64(length) > uint64(len(message)) {
			return 0, true, errNotOurs
		}
		text = message[from:][:length]
	}
	subsystem, digits := property(text, "SUBSYSTEM"), property(text, "SEQNUM")
	if !slices.Contains(ours, string(subsystem)) {
		return 0, done, errNotOurs
	}
	number, err = strconv.ParseUint(string(digits), 10, 64)
	return number, done, err
}

// property returns the value of a property. It does not look at each, because a run among many reads
// the events of all.
func property(text []byte, name string) []byte {
	value, first := bytes.CutPrefix(text, []byte(name+"="))
	if !first {
		_, value, _ = bytes.Cut(text, []byte("\x00"+name+"="))
	}
	value, _, _ = bytes.Cut(value, []byte{0})
	return value
}
