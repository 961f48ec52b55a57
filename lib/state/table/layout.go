package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"gresnet/lib/state"
	"gresnet/lib/words/hint"
)

// Programs up to version 1 of the layout had all of the state in node.json. The file is still there:
// programs that know no other layout refuse what follows, since its checksum agrees and its version
// is another one.
const laidOut = "{\n  \"version\": 2,\n  \"sum\": \"f8b483d8\"\n}\n"

// errVersion means that another version of gresnet wrote the node's state.
var errVersion = errors.New("state of another version")

// layout tells whether the state is in folders. If it is in a document still, layout returns that.
// On a node where no job had an HCA yet it is in neither.
func (f Folder) layout() (folders bool, old *Table, err error) {
	file := state.Dir(f).Layout()
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil, nil
	case err != nil:
		return false, nil, fmt.Errorf("read what jobs have on the node: %w", err)
	case string(text) == laidOut:
		return true, nil, nil
	}
	var v struct{ Version int }
	if err = json.Unmarshal(text, &v); err == nil && v.Version > 1 {
		err = fmt.Errorf("read %s: %w: %d", file, errVersion, v.Version)
		return false, nil, hint.With(err, "GN256 run the epilogs of its jobs with the version of gresnet that wrote it, or reboot the node")
	}
	old = new(Table)
	if err == nil && v.Version == 1 {
		err = json.Unmarshal(text, old)
	} else if err == nil {
		err = errors.New("it does not say its version")
	}
	if err == nil {
		return false, old, nil
	}
	if _, none := os.Lstat(f.path(state.Claims)); none == nil {
		return false, nil, nil // somebody has written there: the folders count
	}
	err = fmt.Errorf("read %s: %w", file, err)
	return false, nil, hint.With(err, "GN571 reboot the node, which frees everything")
}

// layOut makes the folders, with what a document has. A kill leaves the document, and who comes next
// begins again.
func (c *Change) layOut(old *Table) error {
	for _, folder := range folders {
		if err := os.Mkdir(c.folder.path(folder), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if old != nil {
		if err := c.write(encode(*old, nil)); err != nil {
			return err
		}
	}
	file := state.Dir(c.folder).Layout()
	return state.Replace(file, file+".new", []byte(laidOut))
}
