package mover

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// child is all that the process that moves is made of (lib/fork).
type child struct {
	socket  uintptr // RDMA netlink, of the namespace that has the device
	netns   uintptr // where the device goes: the request has its number
	lock    uintptr
	request []byte
	answer  []byte
}

// Keep returns what the move needs, and the HCA's lock.
func (c *child) Keep() []uintptr { return []uintptr{c.socket, c.netns, c.lock} }

// Do moves, and returns the kernel's errno.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) Do(uintptr) uintptr {
	// netlink(7): a request is carried out within sendto; what is read then is
	// a header of 16 bytes and, of an acknowledgement, a negative errno.
	request, size := uintptr(unsafe.Pointer(&c.request[0])), uintptr(len(c.request))
	answer, room := uintptr(unsafe.Pointer(&c.answer[0])), uintptr(len(c.answer))
	_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, c.socket, request, size, 0, 0, 0)
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
	return uintptr(errno)
}
