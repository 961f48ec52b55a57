package devnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/kernel/sysfs"
)

// known is a folder with a file for each HCA whose device nodes are restricted. The file is named by the
// parent device, a colon, and the RDMA device. udev's rule looks for it, and restricts the nodes of
// such an HCA by itself when they are made again. It starts gresnet for others, once for each.
type known string

func (n Nodes) known() known { return known(n.Known) }

// list is the file with the site's list of HCAs, by which Restrict knew which HCAs to restrict.
const list = ".list"

// keepOnly removes what was known by another list of HCAs. A site without a list is spared the encoder: each prolog
// and epilog comes here, those of jobs without HCAs, too.
func (k known) keepOnly(hcas []config.HCA) error {
	if len(hcas) == 0 {
		return k.only(list, nil)
	}
	text, err := json.Marshal(hcas)
	if err != nil {
		return err
	}
	return k.only(list, text)
}

// only has the folder hold one file, unless it holds it already.
func (k known) only(name string, text []byte) error {
	path := filepath.Join(string(k), name)
	if had, err := os.ReadFile(path); err == nil && bytes.Equal(had, text) {
		return nil
	}
	if err := k.forget(); err != nil {
		return err
	}
	if err := os.Mkdir(string(k), 0o700); err != nil {
		return fmt.Errorf("tell udev which device nodes to restrict: %w", err)
	}
	return os.WriteFile(path, text, 0o600)
}

// add makes the file of a device node's HCA, or of RDMA-CM's. An HCA without a parent device has none.
func (k known) add(sys fs.FS, node string) error {
	name := node
	if node != cm {
		owner, err := sysfs.OwnerOf(sys, node)
		if err != nil {
			return err
		}
		parent, err := sysfs.DeviceOf(sys, node)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name = parent + ":" + owner.Device
	}
	if err := os.WriteFile(filepath.Join(string(k), name), nil, 0o600); err != nil {
		return fmt.Errorf("tell udev to restrict %s: %w", node, err)
	}
	return nil
}

// isRenamed tells whether a device node's HCA was restricted under a name that no RDMA device has now. A driver that starts
// again, after a fault of the firmware say, makes it under a name of the kernel's, and udev gives it its own only
// after its device nodes have come.
func (k known) isRenamed(sys fs.FS, node string) (bool, error) {
	parent, err := sysfs.DeviceOf(sys, node)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	files, err := filepath.Glob(filepath.Join(string(k), parent+":*"))
	if err != nil || len(files) == 0 {
		return false, err
	}
	now, err := sysfs.AllVerbs(sys)
	return err == nil && slices.ContainsFunc(files, func(file string) bool {
		name := strings.TrimPrefix(filepath.Base(file), parent+":")
		return !slices.ContainsFunc(now, func(o sysfs.Owner) bool { return o.Device == name })
	}), err
}

// opened is the file by which udev knows that the site wants all nodes open, and starts no program.
const opened = ".open"

// open removes what was known, and has udev leave all nodes open.
func (k known) open() error { return k.only(opened, nil) }

// forget removes all, so that udev restricts nothing by itself.
func (k known) forget() error {
	if err := os.RemoveAll(string(k)); err != nil {
		return fmt.Errorf("have udev restrict no device nodes: %w", err)
	}
	return nil
}
