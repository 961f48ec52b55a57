package gres

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// errNoFile means that the folder is there and the file is not.
var errNoFile = errors.New("no such file in its folder")

// openTrusted opens a regular file that nobody but root can have written: it
// and all folders above are root's, nobody else may write to them, and none is
// a symbolic link. What root alone may change does not change between the look
// and the opening unless root does it.
func openTrusted(path string) (*os.File, error) {
	if err := checkFolders(filepath.Dir(path)); err != nil {
		return nil, err
	}
	// Without O_NONBLOCK a FIFO would be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errNoFile
	case errors.Is(err, syscall.ELOOP):
		return nil, errors.New("it is a symbolic link")
	case err != nil:
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkOwner(info)
	}
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func checkFolders(dir string) error {
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		switch {
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("%s is a symbolic link", dir)
		case !info.IsDir():
			return fmt.Errorf("%s is no folder", dir)
		}
		if err := checkOwner(info); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if dir == "/" {
			return nil
		}
	}
}

// checkOwner wants root to be the only one who may write.
func checkOwner(info fs.FileInfo) error {
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known || stat.Uid != 0:
		return errors.New("it is not root's")
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others than root may write it (%s)", info.Mode())
	}
	return nil
}
