package sysctl

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
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

// Fresh is what a new network namespace has, of what is for it to set. It holds for a boot: a module that is loaded later
// brings a folder. What a new namespace takes over from the node's may change meanwhile: it is the node's own value
// then, which a job is to have.
type Fresh struct {
	Keys   []string
	Values Values
	valid  string // the boot, and the folders
}

// FreshOf returns what the calling thread's namespace has, which is new.
func FreshOf() (Fresh, error) {
	keys, err := Own()
	if err != nil {
		return Fresh{}, err
	}
	values := Settings(keys)
	keys = slices.DeleteFunc(keys, func(key string) bool {
		_, read := values[key]
		info, err := os.Stat(net + key)
		return !read || err != nil || info.Mode().Perm()&0o200 == 0
	})
	return Fresh{keys, values, validity()}, nil
}

// validity returns what must be the same for values to hold.
func validity() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	valid := strings.TrimSpace(string(boot))
	for _, folder := range global {
		if _, err := os.Stat(net + folder); err == nil {
			valid += " " + folder
		}
	}
	return valid
}

// String writes it down: a checksum, the boot and the folders, and a line for each value.
func (f Fresh) String() string {
	text := f.valid + "\n"
	for _, key := range f.Keys {
		text += key + "=" + f.Values[key] + "\n"
	}
	return checksum(text) + text
}

// ParseFresh reads what String wrote. It is not good if it is damaged, of another boot, or of other folders.
func ParseFresh(text string) (f Fresh, good bool) {
	sum, rest, _ := strings.Cut(text, "\n")
	if sum+"\n" != checksum(rest) {
		return Fresh{}, false
	}
	f.valid, rest, _ = strings.Cut(rest, "\n")
	f.Values = make(Values, strings.Count(rest, "\n"))
	for line := range strings.Lines(rest) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		f.Keys = append(f.Keys, key)
		f.Values[key] = value
	}
	return f, f.valid == validity() && f.valid[0] != ' ' // which boot it is must be known
}

func checksum(text string) string { return fmt.Sprintf("%08x\n", crc32.ChecksumIEEE([]byte(text))) }

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

// Take gives the calling thread's namespace, which is new, the values that it does not have.
func Take(fresh Fresh, want Values) error {
	var failed []error
	for _, key := range fresh.Keys {
		value, is := want[key]
		if !is || value == fresh.Values[key] {
			continue
		}
		if err := os.WriteFile(net+key, []byte(value), 0); err != nil {
			failed = append(failed, fmt.Errorf("set net.%s to %q: %w", strings.ReplaceAll(key, "/", "."), value, err))
		}
	}
	return errors.Join(failed...)
}
