// Package crowd makes what a user does who wants a search of all that is open to take for ever: many
// processes, many descriptors, many namespaces and mounts. It is for tests only.
package crowd

import (
	"fmt"
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Crowd is processes that are forks of one, which can end.
type Crowd struct {
	Open   int // descriptors of each, besides those that there are
	Share  int // processes with one table of them
	Copies int // processes each with a table of its own
	Spaces int // these many of them, each in namespaces of its own, with mounts
}

func (c Crowd) String() string {
	return fmt.Sprintf("%d,%d,%d,%d", c.Open, c.Share, c.Copies, c.Spaces)
}

// Parse reads what String returns.
func Parse(text string) (c Crowd, err error) {
	_, err = fmt.Sscanf(text, "%d,%d,%d,%d", &c.Open, &c.Share, &c.Copies, &c.Spaces)
	return c, err
}

// Gather makes a crowd of this process. A descriptor that is given only those with the one table have, and
// it is their last.
func (c Crowd) Gather(last int) error {
	most := uint64(c.Open) + 100
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: most}); err != nil {
		return err
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	for range c.Open {
		if _, err := unix.Dup(null); err != nil {
			return err
		}
	}
	kept, err := unix.FcntlInt(uintptr(last), unix.F_DUPFD, int(most)-1)
	if err != nil {
		return err
	}
	if err := unix.Close(last); err != nil {
		return err
	}
	for range c.Share {
		if errno := keep(unix.CLONE_FILES, -1, false); errno != 0 {
			return errno
		}
	}
	for i := range c.Copies {
		if errno := keep(0, kept, i < c.Spaces); errno != 0 {
			return errno
		}
	}
	return nil
}

var point = []byte("/mnt\x00")

// keep starts a process that keeps what this one has open, but for one descriptor. It lives by the rules
// of package detach.
//
//go:noinline
//go:norace
//go:nocheckptr
func keep(flags uintptr, without int, apart bool) syscall.Errno {
	var all, old [1]uint64
	all[0] = math.MaxUint64
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS
	where := uintptr(unsafe.Pointer(&point[0]))
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD)|flags, 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
		return errno
	}
	if without >= 0 {
		syscall.RawSyscall(unix.SYS_CLOSE, uintptr(without), 0, 0)
	}
	if apart {
		syscall.RawSyscall(unix.SYS_UNSHARE, namespaces, 0, 0)
		for range 50 {
			syscall.RawSyscall6(unix.SYS_MOUNT, where, where, 0, unix.MS_BIND, 0, 0)
		}
	}
	for {
		syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}
