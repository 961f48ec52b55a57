package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gresnet/lib/base/hint"
)

// Append adds text to the end of a file that nobody but root can write, and makes the file if it
// is not there. The text goes in one piece, so lines of several writers do not mix.
func Append(path, text string) error {
	if err := checkFolders(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ELOOP) {
		return errLink
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkFile(info)
	}
	if err == nil {
		_, err = f.WriteString(text)
	}
	return hint.Join(err, f.Close())
}

var errLink = errors.New("it is a symbolic link")

// checkFile wants a regular file that nobody but root can write.
func checkFile(info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return errLink
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	}
	return checkOwner(info, false)
}

// leastRoom is what a file system must have left for Append to be of use for long.
const leastRoom = 1 << 20

// CheckAppend returns why Append would fail, or soon will. It writes nothing.
func CheckAppend(path string) error {
	dir := filepath.Dir(path)
	err := checkFolders(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return hint.With(fmt.Errorf("folder %s is not there", dir), "GN257 install -d -m 700 "+dir)
	}
	if err == nil {
		err = checkThere(path)
	}
	if err != nil {
		return hint.With(err, "GN258 root must own it and all folders on its path, none may be a link, and nobody else may write to them: ls -ld, chown root, chmod go-w")
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return fmt.Errorf("look for space at %s: %w", dir, err)
	}
	switch left := disk.Bavail * uint64(disk.Bsize); {
	case disk.Flags&syscall.MS_RDONLY != 0:
		return hint.With(fmt.Errorf("folder %s is mounted read-only", dir), "GN259 mount it read-write, or name a file elsewhere")
	case left < leastRoom || disk.Files > 0 && disk.Ffree == 0:
		return hint.With(fmt.Errorf("the file system of %s has %d KiB and %d files left", dir, left>>10, disk.Ffree), "GN260 make room, or name a file elsewhere: df, df -i")
	}
	return nil
}

// checkThere checks a file, if it is there.
func checkThere(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = checkFile(info)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
