package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

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

// isCharLink tells what /proc/PID/fd says of a descriptor of a device node of an HCA or of
// RDMA-CM, wherever that is and whether it is still there.
func isCharLink(link string) bool {
	name := strings.TrimSuffix(link, " (deleted)")
	name = name[strings.LastIndexByte(name, '/')+1:]
	kind := strings.TrimRight(name, "0123456789")
	return name == "rdma_cm" || (kind == "uverbs" || kind == "umad") && kind != name
}

// WithOpen are the processes that have a device node of an HCA open of a device number that
// is wanted. A user can give any file such a name: so no file is asked what it is but by
// what the kernel knows already, without its file system (AT_STATX_DONT_SYNC).
func WithOpen(is func(major, minor uint32) bool) ([]Process, error) {
	return which(func(dir string) bool {
		entries, _ := os.ReadDir(filepath.Join(dir, "fd"))
		for _, e := range entries {
			path := filepath.Join(dir, "fd", e.Name())
			link, err := os.Readlink(path)
			if err != nil || !isCharLink(link) {
				continue
			}
			var st unix.Statx_t
			err = unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE, &st)
			if err == nil && st.Mode&unix.S_IFMT == unix.S_IFCHR && is(st.Rdev_major, st.Rdev_minor) {
				return true
			}
		}
		return false
	})
}
