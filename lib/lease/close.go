package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gresnet/lib/char"
	"gresnet/lib/config"
	"gresnet/lib/node"
	"gresnet/lib/sysfs"
)

// Close closes the node's own device nodes of the HCAs that jobs can have to
// everybody but root, if the site wants them closed: those of free HCAs, too.
// It is no lease's doing and nobody undoes it: leases find the nodes closed and
// leave them so. What is closed already is not touched. udev has it done for each
// node that is made anew, also of an HCA that is away in a job by then: so it looks at
// what is open alone, and at no HCA.
func (n *Node) Close() error {
	if n.Config.Access.Host != config.Closed {
		return nil
	}
	open, err := n.openNodes()
	if err != nil {
		return err
	}
	for _, name := range open {
		covered, err := n.covers(name)
		if err == nil && covered {
			err = char.Set(filepath.Join(n.Dev, name), char.RootAlone())
		}
		// A move makes it anew, and with it there is the next event for udev.
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("close the device node %s: %w", name, err)
		}
	}
	return nil
}

// openNodes are the device nodes of HCAs that anybody but root can open.
func (n *Node) openNodes() (open []string, err error) {
	entries, err := os.ReadDir(n.Dev)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // a node without HCAs, or without ib_uverbs
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if sysfs.CharClass(e.Name()) == "" {
			continue
		}
		access, err := char.Stat(filepath.Join(n.Dev, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // its HCA is being moved
		}
		if err != nil {
			return nil, err
		}
		if access != char.RootAlone() {
			open = append(open, e.Name())
		}
	}
	return open, nil
}

// covers tells whether a device node is of an HCA that jobs can have. What the site
// does not list it uses otherwise.
func (n *Node) covers(name string) (bool, error) {
	if len(n.Config.HCAs) == 0 {
		return true, nil
	}
	owner, err := sysfs.OwnerOf(n.Sys, name)
	if err != nil {
		return false, err
	}
	// Of an HCA that is away nobody tells the GUID.
	guid, err := sysfs.NodeGUID(n.Sys, owner.Device)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	h := node.HCA{ID: node.ID{GUID: guid, PCI: owner.Place.PCI, Aux: owner.Place.Aux}, Name: owner.Device}
	return slices.ContainsFunc(n.Config.HCAs, func(c config.HCA) bool { return c.Match.Matches(h) }), nil
}
