// Package trust tells files that root alone can have written from others: what root reads
// or runs must not be a user's to choose.
package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gresnet/lib/base/hint"
)

// ErrNoFile means that the folder is there and the file is not.
var ErrNoFile = errors.New("no such file in its folder")

// Open opens a regular file that nobody but root can have written: it
// and all folders above are root's, nobody else may write to them, and none is
// a symbolic link. What root alone may change does not change between the look
// and the opening unless root does it.
func Open(path string) (*os.File, error) {
	if err := checkFolders(filepath.Dir(path)); err != nil {
		return nil, err
	}
	// Without O_NONBLOCK a FIFO would be waited for.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNoFile
	case errors.Is(err, syscall.ELOOP):
		return nil, errLink
	case err != nil:
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkFile(info)
	}
	if err != nil {
		return nil, hint.Join(err, f.Close())
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
		if err := checkOwner(info, false); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if dir == "/" {
			return nil
		}
	}
}

// maxLinks is how many symbolic links a path may lead through, as the kernel has it (path_resolution(7)).
const maxLinks = 40

// Resolve returns the path of a file without the symbolic links that lead there. It and all that it leads
// through must be root's, links too, and nobody else may write to it. A folder like /tmp,
// in which users cannot replace what is root's, will do. A site's own paths may lead
// through links, as /opt/slurm/current does; what a job's files are called may not: see Open.
func Resolve(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%s is no absolute path", path)
	}
	at, ahead := "/", strings.Split(path, "/")
	for links := 0; ; {
		info, err := os.Lstat(at)
		if err != nil {
			return "", err
		}
		sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
		if err := checkOwner(info, sticky); err != nil {
			return "", fmt.Errorf("%s: %w", at, err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			if links++; links > maxLinks {
				return "", fmt.Errorf("%s leads through more than %d symbolic links", path, maxLinks)
			}
			to, err := os.Readlink(at)
			if err != nil {
				return "", err
			}
			at = filepath.Dir(at)
			if filepath.IsAbs(to) {
				at = "/"
			}
			ahead = append(strings.Split(to, "/"), ahead...)
			continue
		}
		for len(ahead) > 0 && (ahead[0] == "" || ahead[0] == ".") {
			ahead = ahead[1:]
		}
		if len(ahead) == 0 {
			return at, nil
		}
		at, ahead = filepath.Join(at, ahead[0]), ahead[1:] // what is above was no link: ".." is what it says
	}
}

// checkOwner wants root to be the only one who may write, unless others may. A link has no
// mode of its own.
func checkOwner(info fs.FileInfo, others bool) error {
	stat, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known || stat.Uid != 0:
		return errors.New("it is not root's")
	case !others && info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others than root may write it (%s)", info.Mode())
	}
	return nil
}
