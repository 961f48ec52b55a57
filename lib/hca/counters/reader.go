package counters

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reader reads files one after another in a process that can be left behind (lib/kernel/detach). It sends
// an answer for each, which is empty if it could not read the file.
type reader struct {
	paths  []*byte // each ends with a zero byte
	answer *[answerSize]byte
	keep   []uintptr
}

// An answer has the file's place in the list, how many bytes were read, and these. A counter has 21
// at most; what is longer is cut off, and is none.
const (
	answerSize = 32
	header     = 8
)

// Keep returns what the process holds; it opens what it reads.
func (r *reader) Keep() []uintptr { return r.keep }

// Do reads.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (r *reader) Do(output uintptr) uintptr {
	var at int = unix.AT_FDCWD
	for i, path := range r.paths {
		var n uintptr
		fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(path)), unix.O_RDONLY, 0, 0, 0)
		if errno == 0 {
			n, _, errno = syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&r.answer[header])), answerSize-header)
			syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		}
		if errno != 0 {
			n = 0
		}
		*(*uint32)(unsafe.Pointer(&r.answer[0])) = uint32(i)
		*(*uint32)(unsafe.Pointer(&r.answer[4])) = uint32(n)
		syscall.RawSyscall(unix.SYS_WRITE, output, uintptr(unsafe.Pointer(&r.answer[0])), answerSize)
	}
	return 0
}

// decode takes an answer apart.
func decode(a *[answerSize]byte) (place int, text string) {
	n := min(binary.NativeEndian.Uint32(a[4:]), answerSize-header)
	return int(binary.NativeEndian.Uint32(a[:])), string(a[header : header+n])
}
