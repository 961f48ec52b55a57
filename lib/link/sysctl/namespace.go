package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// net has all of them.
const net = "/proc/sys/net/"

// global are the folders with the sysctls of a namespace that programs may meet. Those of netfilter and of the
// kernel's cache of routes are not among them, nor are those of interfaces.
var global = []string{"core", "ipv4", "ipv6", "unix", "mptcp"}

// isKept tells whether a namespace keeps a sysctl as the kernel made it: forwarding is not the job's,
// and the key of the node's connections is secret.
func isKept(key string) bool {
	return strings.HasPrefix(key, "ipv4/ip_forward") || key == "ipv4/tcp_fastopen_key"
}

// Own returns the keys of the sysctls that the calling thread's network namespace has.
func Own() (keys []string, err error) {
	for _, folder := range global {
		entries, err := os.ReadDir(net + folder)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list the sysctls of net: %w", err)
		}
		for _, e := range entries {
			if key := folder + "/" + e.Name(); !e.IsDir() && !isKept(key) {
				keys = append(keys, key)
			}
		}
	}
	return keys, nil
}

// Settings returns the values that the calling thread's namespace has of sysctls. It leaves out what
// cannot be read.
func Settings(keys []string) Values {
	all := Values{}
	// The kernel makes and clears a buffer as long as the reader's (proc_sysctl.c:proc_sys_call_handler).
	// Nearly all values are short; a list of ports may be long, and is read in one call, too.
	short, long := make([]byte, 256), []byte(nil)
	folder, dir := "", -1
	defer func() { unix.Close(dir) }()
	for _, key := range keys {
		if of := path.Dir(key); of != folder {
			unix.Close(dir)
			folder = of
			dir, _ = openFolder(net + of)
		}
		fd, err := unix.Openat(dir, path.Base(key), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		text := short
		n, err := unix.Pread(fd, text, 0)
		if err == nil && n == len(short) {
			if long == nil {
				long = make([]byte, 1<<16)
			}
			text = long
			n, err = unix.Pread(fd, text, 0)
		}
		if err == nil {
			all[key] = strings.TrimSpace(string(text[:n]))
		}
		unix.Close(fd)
	}
	return all
}

// Take gives the calling thread's namespace, which has some values, those that it does not have. What
// is not for a namespace to set stays as it is.
func Take(have, want Values) error {
	var failed []error
	for _, key := range slices.Sorted(maps.Keys(have)) {
		value, is := want[key]
		if !is || value == have[key] {
			continue
		}
		if info, err := os.Stat(net + key); err != nil || info.Mode().Perm()&0o200 == 0 {
			continue
		}
		if err := os.WriteFile(net+key, []byte(value), 0); err != nil {
			failed = append(failed, fmt.Errorf("set net.%s to %q: %w", strings.ReplaceAll(key, "/", "."), value, err))
		}
	}
	return errors.Join(failed...)
}
