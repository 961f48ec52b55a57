package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// UserOf returns a process and its real user or, if that is root, the real user who had its program executed: a
// program that becomes root is the user's whom it serves, such as a sudo that asks for a password. A process
// that is gone is fs.ErrNotExist. It reads /proc/PID/status, and of root's processes /proc/PID/auxv: no user
// can keep these from being read.
func UserOf(pid int) (Process, uint32, error) {
	path := fmt.Sprintf("/proc/%d/status", pid)
	status, err := os.ReadFile(path)
	if errors.Is(err, unix.ESRCH) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	if err != nil {
		return Process{}, 0, fmt.Errorf("look at process %d: %w", pid, err)
	}
	field := func(name string) []byte {
		_, after, _ := bytes.Cut(append([]byte{'\n'}, status...), []byte("\n"+name+":\t"))
		line, _, _ := bytes.Cut(after, []byte{'\n'})
		return line
	}
	real, _, _ := bytes.Cut(field("Uid"), []byte{'\t'})
	uid, err := strconv.ParseUint(string(real), 10, 32)
	if err != nil {
		return Process{}, 0, fmt.Errorf("read %s: %w", path, err)
	}
	if uid == 0 {
		uid = executedBy(pid)
	}
	return Process{pid, string(field("Name"))}, uint32(uid), nil
}

// executedBy returns the real user that a process had when it executed its program, as the kernel told the
// program (getauxval(3)). It is root for a thread of the kernel's.
func executedBy(pid int) uint64 {
	const realUser, size = 11, 8 // AT_UID, linux/auxvec.h
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0 // it has ended, or a person who is not root asks
	}
	for pair := range slices.Chunk(auxv, 2*size) {
		if len(pair) == 2*size && binary.NativeEndian.Uint64(pair) == realUser {
			return binary.NativeEndian.Uint64(pair[size:])
		}
	}
	return 0
}
