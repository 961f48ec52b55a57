package mover

import (
	"math"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is all that the process that moves is made of. It is a fork that never
// becomes another program: a start of the Go runtime would cost more than the
// move. So it lives by the rules of syscall.forkAndExecInChild: one thread, no
// signals, raw system calls, no memory that was not there before.
type child struct {
	socket  uintptr // RDMA netlink, of the namespace that has the device
	netns   uintptr // where the device goes: the request has its number
	request []byte
	answer  []byte
	null    uintptr
	result  uintptr // closed when the child ends
	lock    uintptr
	name    []byte // for ps(1): who hangs there
}

// start forks. The kernel sees the namespaces of the calling thread in the child, too.
func (c *child) start() (pid int, errno syscall.Errno) {
	keep := [...]uintptr{c.socket, c.netns, c.result, c.lock}
	slices.Sort(keep[:])
	return c.fork(keep[0], keep[1], keep[2], keep[3])
}

//go:noinline
//go:norace
//go:nocheckptr
func (c *child) fork(k0, k1, k2, k3 uintptr) (pid int, errno syscall.Errno) {
	var all, old [1]uint64
	all[0] = ^uint64(0)
	request, size := uintptr(unsafe.Pointer(&c.request[0])), uintptr(len(c.request))
	name := uintptr(unsafe.Pointer(&c.name[0]))
	answer, room := uintptr(unsafe.Pointer(&c.answer[0])), uintptr(len(c.answer))
	// A signal would run Go's handler, which has no runtime in the child.
	syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	r, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || r != 0 {
		syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&old)), 0, 8, 0, 0)
		return int(r), errno
	}

	syscall.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NAME, name, 0)
	syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
	syscall.RawSyscall(unix.SYS_DUP3, c.null, 0, 0)
	syscall.RawSyscall(unix.SYS_DUP3, c.null, 1, 0)
	syscall.RawSyscall(unix.SYS_DUP3, c.null, 2, 0)
	// Nothing closes on exec, as there is none: the job's lock must not stay with a move.
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 3, k0-1, 0)
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, k0+1, k1-1, 0)
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, k1+1, k2-1, 0)
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, k2+1, k3-1, 0)
	syscall.RawSyscall(unix.SYS_CLOSE_RANGE, k3+1, math.MaxUint32, 0)

	// netlink(7): a request is carried out within sendto; what is read then is
	// a header of 16 bytes and, of an acknowledgement, a negative errno.
	_, _, errno = syscall.RawSyscall6(unix.SYS_SENDTO, c.socket, request, size, 0, 0, 0)
	if errno == 0 {
		var n uintptr
		n, _, errno = syscall.RawSyscall6(unix.SYS_RECVFROM, c.socket, answer, room, 0, 0, 0)
		if errno == 0 && n < 20 {
			errno = unix.EBADMSG
		}
		if errno == 0 {
			errno = syscall.Errno(-*(*int32)(unsafe.Pointer(&c.answer[16])))
		}
	}
	for {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0)
	}
}
