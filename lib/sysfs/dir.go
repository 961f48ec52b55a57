package sysfs

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Dir is a folder of the real file system, for small files that are not on a
// disk: reading one takes three system calls, a third of what os.DirFS makes.
type Dir struct {
	fs.ReadLinkFS
	path string
}

// At is the folder with a path.
func At(path string) Dir {
	return Dir{os.DirFS(path).(fs.ReadLinkFS), path}
}

// ReadFile reads a file of at most a page, as those of sysfs are.
func (d Dir) ReadFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	fd, err := unix.Open(d.path+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	text := make([]byte, os.Getpagesize())
	n, err := unix.Read(fd, text)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return text[:n], nil
}
