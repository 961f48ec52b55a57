package devnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Folder is the folder of the node's device nodes, /dev/infiniband.
type Folder string

// What the folder's mode is, restricted and as the kernel makes it.
const (
	folderRestricted = 0o700
	folderOpen       = 0o755
)

// mark is a file in a folder that Restrict has restricted. Open undoes no other's doing by it, and
// the kernel removes a folder that it made as soon as that is empty, to make another one,
// with its own mode, for the next device node (drivers/base/devtmpfs.c:delete_path): with
// the mark in it, it is never empty.
const mark = ".gresnet"

func (f Folder) mark() string { return filepath.Join(string(f), mark) }

// Restrict restricts the folder to root, and makes it if it is not there: a driver
// that is loaded later makes its device nodes in it. Where there is no /dev it does nothing.
func (f Folder) Restrict() error {
	if err := os.Mkdir(string(f), folderRestricted); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	st, err := f.stat()
	if err != nil {
		return err
	}
	if err := f.setMark(); err != nil {
		return err
	}
	if st.Uid != 0 || st.Gid != 0 {
		if err := os.Lchown(string(f), 0, 0); err != nil {
			return err
		}
	}
	if st.Mode&0o7777 == folderRestricted {
		return nil
	}
	return os.Chmod(string(f), folderRestricted)
}

func (f Folder) setMark() error {
	file, err := os.OpenFile(f.mark(), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// Open opens a folder that Restrict has restricted. Any other is left as it is.
func (f Folder) Open() error { return f.reopen(Access{Mode: folderOpen}) }

// reopen gives a folder that Restrict has restricted the access that it had. Any other is left as it is.
func (f Folder) reopen(had Access) error {
	if is, err := f.isMarked(); err != nil || !is {
		return err
	}
	st, err := f.stat()
	if err != nil {
		return err
	}
	if st.Mode&0o7777 == folderRestricted {
		err := os.Lchown(string(f), int(had.UID), int(had.GID))
		if err == nil {
			err = unix.Chmod(string(f), had.Mode)
		}
		if err != nil {
			return err
		}
	}
	return os.Remove(f.mark())
}

// isMarked tells whether Restrict has restricted the folder.
func (f Folder) isMarked() (bool, error) {
	_, err := os.Lstat(f.mark())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// access reads who may enter the folder.
func (f Folder) access() (Access, error) {
	st, err := f.stat()
	return Access{Mode: st.Mode & 0o7777, UID: st.Uid, GID: st.Gid}, err
}

// IsRestricted tells whether root alone reaches what is in the folder.
func (f Folder) IsRestricted() (bool, error) {
	st, err := f.stat()
	return err == nil && st.Uid == 0 && st.Mode&0o077 == 0, err
}

func (f Folder) stat() (st unix.Stat_t, err error) {
	if err := unix.Lstat(string(f), &st); err != nil {
		return st, &fs.PathError{Op: "stat", Path: string(f), Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return st, fmt.Errorf("stat %s: not a folder", f)
	}
	return st, nil
}
