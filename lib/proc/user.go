package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// UserOf is a process and its real user. A process that is gone is fs.ErrNotExist. It reads
// /proc/PID/status alone, which no user can keep from being read.
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
	return Process{pid, string(field("Name"))}, uint32(uid), nil
}
