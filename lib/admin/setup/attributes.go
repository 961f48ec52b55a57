package setup

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// keepAttributes gives a file the extended attributes of the one that it takes the place of: ACLs,
// and labels of SELinux.
func keepAttributes(from string, to *os.File) error {
	names := make([]byte, 1<<16)
	size, err := unix.Llistxattr(from, names)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	value := make([]byte, 1<<16)
	for _, name := range strings.Split(strings.TrimRight(string(names[:size]), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		n, err := unix.Lgetxattr(from, name, value)
		if err == nil {
			err = unix.Fsetxattr(int(to.Fd()), name, value[:n], 0)
		}
		if err != nil && !errors.Is(err, unix.ENOTSUP) && !errors.Is(err, unix.ENODATA) {
			return err
		}
	}
	return nil
}
