package devnode

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// acl is the attribute that has a node's access control list (linux/posix_acl_xattr.h).
const acl = "system.posix_acl_access"

// kept tells the extended attributes that a node keeps: its access control list, and what root alone
// sees. Labels of SELinux and the like are udev's to give, by the site's policy; and no node has any of
// a user's (xattr.c:xattr_permission).
func kept(name string) bool { return name == acl || strings.HasPrefix(name, "trusted.") }

// attributes reads the extended attributes that a node keeps. It is not nil, so that in a journal nothing
// is told from not known.
func attributes(path string) (map[string][]byte, error) {
	names, err := listAttributes(path)
	if err != nil {
		return nil, &fs.PathError{Op: "listxattr", Path: path, Err: err}
	}
	all := map[string][]byte{}
	for _, name := range names {
		if !kept(name) {
			continue
		}
		value, err := attribute(path, name)
		if errors.Is(err, unix.ENODATA) {
			continue // gone meanwhile
		}
		if err != nil {
			return nil, &fs.PathError{Op: "getxattr " + name, Path: path, Err: err}
		}
		all[name] = value
	}
	return all, nil
}

func listAttributes(path string) ([]string, error) {
	text, err := sized(func(buffer []byte) (int, error) { return unix.Llistxattr(path, buffer) })
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // a kernel whose devtmpfs has none
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == 0 }), err
}

func attribute(path, name string) ([]byte, error) {
	return sized(func(buffer []byte) (int, error) { return unix.Lgetxattr(path, name, buffer) })
}

// sized reads what has a size that can change meanwhile.
func sized(read func([]byte) (int, error)) ([]byte, error) {
	for {
		size, err := read(nil)
		if err != nil || size == 0 {
			return nil, err
		}
		buffer := make([]byte, size)
		size, err = read(buffer)
		if !errors.Is(err, unix.ERANGE) {
			return buffer[:max(size, 0)], err
		}
	}
}

// setAttributes gives a node the attributes that it had, and takes those that came meanwhile: the kernel
// gives each node that it makes the default list of its folder. It does nothing for an earlier version's
// entry, which has none.
func setAttributes(path string, want map[string][]byte) error {
	if want == nil {
		return nil
	}
	have, err := attributes(path)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, is := want[name]; is {
			continue
		}
		if err := unix.Lremovexattr(path, name); err != nil && !errors.Is(err, unix.ENODATA) {
			return &fs.PathError{Op: "removexattr " + name, Path: path, Err: err}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if now, is := have[name]; is && bytes.Equal(now, want[name]) {
			continue
		}
		if !kept(name) {
			return fmt.Errorf("set attribute %s of %s: no node keeps it", name, path)
		}
		if err := unix.Lsetxattr(path, name, want[name], 0); err != nil {
			return &fs.PathError{Op: "setxattr " + name, Path: path, Err: err}
		}
	}
	return nil
}
