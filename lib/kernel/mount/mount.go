// Package mount makes and takes away the two kinds of mount that a lease has:
// a namespace's file and a small file system for device nodes.
package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Devices mounts an empty file system at dir, which must exist, on which
// device nodes work: /run, where dir is, usually says nodev.
func Devices(dir string) error {
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := unix.Mount("gresnet", dir, "tmpfs", flags, "mode=0755,size=64k,nr_inodes=1k"); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", dir, err)
	}
	return nil
}

// Remove takes away whatever is mounted at path, and the file or empty
// directory below it. Nothing there is success.
func Remove(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // nothing (more) is mounted there
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
