package table

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/state"
)

// version is that of the folders and their entries. A file says it, and so that all folders were made.
const version = 1

// errVersion means that another version of gresnet wrote the node's state.
var errVersion = errors.New("state of another version")

// laidOut tells whether the folders must be there. On a node where no job had an HCA yet they are not.
func (f Folder) laidOut() (bool, error) {
	file := state.Dir(f).Layout()
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read what jobs have on the node: %w", err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case err == nil && n == version:
		return true, nil
	case err == nil:
		err = fmt.Errorf("read %s: %w: %d", file, errVersion, n)
		return false, hint.With(err, "GN256 run the epilogs of its jobs with the version of gresnet that wrote it, or reboot the node")
	}
	if _, none := os.Lstat(f.path(state.Claims)); none == nil {
		return false, nil // somebody has written there: the folders count
	}
	err = fmt.Errorf("read %s: %w", file, err)
	return false, hint.With(err, "GN571 reboot the node, which frees everything")
}

// layOut makes the folders. After a kill who comes next makes the rest.
func (c *Change) layOut() error {
	for _, folder := range folders {
		if err := os.Mkdir(c.folder.path(folder), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	file := state.Dir(c.folder).Layout()
	return state.Replace(file, file+".new", []byte(strconv.Itoa(version)+"\n"))
}
