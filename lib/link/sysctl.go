package link

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func acceptDAD(name string) string {
	return filepath.Join("/proc/sys/net/ipv6/conf", name, "accept_dad")
}

// SkipDAD makes the calling thread's namespace give new interfaces their IPv6
// addresses without testing them for duplicates, which takes a second each.
func SkipDAD() error {
	const path = "/proc/sys/net/ipv6/conf/default/accept_dad"
	was, err := readSysctl(path)
	if err != nil {
		return err
	}
	return writeSysctl(path, "0", was)
}

// readSysctl reads a sysctl of the calling thread's network namespace; one
// that the kernel does not have is empty.
func readSysctl(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// writeSysctl writes a sysctl, unless the kernel did not have it when the
// settings were read.
func writeSysctl(path, value, was string) error {
	if was == "" {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0)
}
