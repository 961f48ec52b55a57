package devnode

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"gresnet/lib/kernel/sysfs"
)

// Picture is who could open the node's own device nodes before gresnet restricted them. It lacks those
// that gresnet may have restricted already.
type Picture struct {
	Folder *Access         `json:"folder,omitempty"` // nil: it was not there, or is not known
	Nodes  map[string]Node `json:"nodes,omitempty"`  // by HCA, kind and port: a node's number changes
}

// Picture reads who can open the node's own device nodes. Of a folder that is restricted already it
// does not know who could, and of a device node only if nothing of gresnet has run since the boot:
// then the node is untouched, and the site has restricted it.
func (n Nodes) Picture(untouched bool) (p Picture, err error) {
	marked, err := n.folder().isMarked()
	if err != nil || marked {
		return p, err
	}
	folder, err := n.folder().access()
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	p = Picture{Folder: &folder, Nodes: map[string]Node{}}
	return p, n.each(func(name string, access Access) error {
		if access == RootAlone() && !untouched {
			return nil
		}
		id, err := n.identity(name)
		if err == nil {
			p.Nodes[id], err = Read(Path(n.Dev, name))
		}
		return err
	})
}

// Reopen gives the device nodes that are restricted the access that they had, then the folder. For
// nodes that the picture lacks, udev is called with their folders in /sys: it knows the site's
// rules. It returns false where there is no udev: then they get the modes of the kernel.
func (n Nodes) Reopen(p Picture, udev func(devices []string) (bool, error)) error {
	var unknown []string
	err := n.each(func(name string, access Access) error {
		if access != RootAlone() {
			return nil
		}
		id, err := n.identity(name)
		had, known := p.Nodes[id]
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return err
		case !known:
			unknown = append(unknown, name)
			return nil
		}
		return Restore(Path(n.Dev, name), had)
	})
	if err == nil && len(unknown) > 0 {
		err = n.giveUnknown(unknown, udev)
	}
	if err != nil {
		return fmt.Errorf("restore device nodes: %w", err)
	}
	if p.Folder == nil {
		return n.folder().Open()
	}
	return n.folder().reopen(*p.Folder)
}

func (n Nodes) giveUnknown(names []string, udev func([]string) (bool, error)) error {
	var devices []string
	for _, name := range names {
		devices = append(devices, path.Join("/sys", classOf(name)))
	}
	if is, err := udev(devices); err != nil || is {
		return err
	}
	for _, name := range names {
		mode, err := n.kernelMode(name)
		if err == nil {
			err = Set(Path(n.Dev, name), Access{Mode: mode})
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// each calls f with each device node that is there still.
func (n Nodes) each(f func(name string, access Access) error) error {
	nodes, err := n.deviceNodes()
	for _, name := range nodes {
		access, err := Stat(Path(n.Dev, name))
		if err == nil {
			err = f(name, access)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return err
}

// identity says which device node a name means now: "uverbs of GUID@PCI", "umad 1 of GUID@PCI".
func (n Nodes) identity(name string) (string, error) {
	if name == cm {
		return cm, nil
	}
	owner, err := sysfs.OwnerOf(n.Sys, name)
	if err != nil {
		return "", err
	}
	guid, err := sysfs.NodeGUID(n.Sys, owner.Device)
	if err != nil {
		return "", err
	}
	h, err := sysfs.HCA(n.Sys, owner.Device, guid, owner.Address)
	if err != nil {
		return "", err
	}
	kind := strings.TrimRight(name, "0123456789")
	if sysfs.CharClass(name) == "infiniband_mad" {
		port, err := fs.ReadFile(n.Sys, path.Join(classOf(name), "port"))
		if err != nil {
			return "", err
		}
		kind += " " + strings.TrimSpace(string(port))
	}
	return kind + " of " + h.ID.String(), nil
}

// classOf returns a device node's folder in /sys.
func classOf(name string) string {
	if name == cm {
		return "class/misc/" + cm
	}
	return path.Join("class", sysfs.CharClass(name), name)
}

// kernelMode returns the mode with which the kernel makes a device node
// (drivers/base/core.c:dev_uevent); without a word of it that is 0600.
func (n Nodes) kernelMode(name string) (uint32, error) {
	text, err := fs.ReadFile(n.Sys, path.Join(classOf(name), "uevent"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if mode, is := strings.CutPrefix(strings.TrimSpace(line), "DEVMODE="); is {
			bits, err := strconv.ParseUint(mode, 8, 12)
			return uint32(bits), err
		}
	}
	return RootAlone().Mode, nil
}
