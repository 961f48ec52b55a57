package sysfs

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Mounted is a sysfs of one network namespace that is attached nowhere: it is
// reached through its descriptor alone and goes with it.
type Mounted struct {
	Dir
	fd int
}

// Close lets go of the sysfs.
func (m *Mounted) Close() error { return unix.Close(m.fd) }

// Mount makes a sysfs that shows the calling thread's network namespace: what
// a sysfs shows is fixed when it is made (sysfs/mount.c:sysfs_init_fs_context).
func Mount() (*Mounted, error) {
	context, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open a sysfs: %w", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, fmt.Errorf("create a sysfs: %w", err)
	}
	fd, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, fmt.Errorf("mount a sysfs: %w", err)
	}
	// Not by /proc/self: a child of this process may be told the path.
	return &Mounted{At(fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)), fd}, nil
}

// Replace has the calling thread, and what it starts, see a /sys that shows the thread's network namespace. The
// thread is in a mount namespace of its own then.
func Replace() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("create a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount a sysfs: %w", err)
	}
	return nil
}
