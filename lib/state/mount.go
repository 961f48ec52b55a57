package state

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// MountDevices mounts an empty file system at dir, which must exist, on which
// device nodes work: /run, where dir is, usually says nodev.
func MountDevices(dir string) error {
	const flags = unix.MS_NOSUID | unix.MS_NOEXEC
	if err := unix.Mount("gresnet", dir, "tmpfs", flags, "mode=0755,size=64k,nr_inodes=1k"); err != nil {
		return fmt.Errorf("mount a tmpfs at %s: %w", dir, err)
	}
	return nil
}

// Unmount takes away whatever is mounted at path, and the file or empty
// directory below it. Nothing there is success.
func Unmount(path string) error {
	for {
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			break // nothing (more) is mounted there
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	return Remove(path)
}
