// Package devnode reads and sets who may open an HCA's device nodes on the node. Moving an RDMA
// device makes its nodes again, so nodes are found by the HCA and never by their numbers.
package devnode

import (
	"errors"
	"io/fs"
	"path/filepath"

	"gresnet/lib/char"
	"gresnet/lib/node"
	"gresnet/lib/scan"
)

// Read reads who may open the nodes of a device, which are in the folder dev. It passes over nodes
// that are not there (no udev, no devtmpfs), and so nothing restores them.
func Read(dev string, d scan.Device) (nodes []char.Node, err error) {
	for _, c := range d.Chars {
		n, err := char.Read(filepath.Join(dev, c.Name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		n.Kind, n.Port = c.Kind, c.Port
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// Close gives the nodes to root alone.
func Close(v *scan.View, dev string, id node.ID, nodes []char.Node) error {
	return set(v, dev, id, nodes, func(path string, _ char.Node) error { return char.Set(path, char.RootAlone()) })
}

// Restore gives the nodes the access that was read, whatever their numbers are now.
func Restore(v *scan.View, dev string, id node.ID, nodes []char.Node) error {
	return set(v, dev, id, nodes, char.Restore)
}

func set(v *scan.View, dev string, id node.ID, nodes []char.Node, set func(string, char.Node) error) error {
	d, err := v.Find(id)
	if err != nil {
		return err
	}
	if err := v.MAD(&d); err != nil {
		return err
	}
	for _, n := range nodes {
		name := nameOf(d, n)
		if name == "" {
			continue // its module was unloaded (ib_umad): there is no node to restore
		}
		if err := set(filepath.Join(dev, name), n); err != nil {
			return err
		}
	}
	return nil
}

func nameOf(d scan.Device, n char.Node) string {
	for _, c := range d.Chars {
		if c.Kind == n.Kind && c.Port == n.Port {
			return c.Name
		}
	}
	return ""
}
