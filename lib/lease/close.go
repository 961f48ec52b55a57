package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gresnet/lib/char"
	"gresnet/lib/config"
	"gresnet/lib/node"
	"gresnet/lib/scan"
)

// Close closes the node's own device nodes of the HCAs that jobs can have to
// everybody but root, if the site wants them closed: those of free HCAs, too.
// It is no lease's doing and nobody undoes it: leases find the nodes closed and
// leave them so. What is closed already is not touched, and a node on which all
// is costs no look at its HCAs.
func (n *Node) Close() error {
	if n.Config.Access.Host != config.Closed {
		return nil
	}
	open, err := n.isOpen()
	if err != nil || !open {
		return err
	}
	v, err := scan.Open(n.Sys, n.unseen())
	if err != nil {
		return err
	}
	defer v.Close()
	devices, err := v.Devices()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if !n.covers(d) {
			continue
		}
		if err := n.closeDevice(v, d); err != nil {
			return fmt.Errorf("close the device nodes of %s: %w", d.Name, err)
		}
	}
	return nil
}

// isOpen tells whether anybody but root can open any node of an HCA.
func (n *Node) isOpen() (bool, error) {
	entries, err := os.ReadDir(n.Dev)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // a node without HCAs, or without ib_uverbs
	}
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		kind := strings.TrimRight(e.Name(), "0123456789")
		if !slices.Contains(scan.Kinds(), kind) {
			continue
		}
		access, err := char.Stat(filepath.Join(n.Dev, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // its HCA is being moved
		}
		if err != nil {
			return false, err
		}
		if access != char.RootAlone() {
			return true, nil
		}
	}
	return false, nil
}

// covers tells whether an HCA is one that jobs can have. What the site does not
// list it uses otherwise.
func (n *Node) covers(d scan.Device) bool {
	h := node.HCA{ID: d.ID, Name: d.Name}
	return len(n.Config.HCAs) == 0 ||
		slices.ContainsFunc(n.Config.HCAs, func(c config.HCA) bool { return c.Match.Matches(h) })
}

func (n *Node) closeDevice(v *scan.View, d scan.Device) error {
	if err := v.MAD(&d); err != nil {
		// Another job's prolog took it meanwhile, and closes it itself.
		if _, gone := v.Find(d.ID); errors.Is(gone, scan.ErrNotFound) {
			return nil
		}
		return err
	}
	for _, c := range d.Chars {
		err := char.Set(filepath.Join(n.Dev, c.Name), char.RootAlone())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
