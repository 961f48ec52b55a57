package scan

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/kernel/sysfs"
)

// Nodes reads who may open the nodes of a device, which are in the folder dev. It passes over nodes
// that are not there (no udev, no devtmpfs), and so nothing restores them.
func (d Device) Nodes(dev string) (nodes []devnode.Node, err error) {
	for _, c := range d.Chars {
		n, err := devnode.Read(devnode.Path(dev, c.Name))
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

// SysDirs returns the directories in /sys of all that udev handles for an HCA: the RDMA device, its character
// devices, and the network interfaces of its function.
func (v *View) SysDirs(d Device) (dirs []string) {
	own := path.Join("class/infiniband", d.Name)
	dirs = append(dirs, own)
	for _, c := range d.Chars {
		dirs = append(dirs, path.Join("class", sysfs.CharClass(c.Name), c.Name))
	}
	interfaces, _ := fs.Glob(v.sys, path.Join(own, "device/net/*")) // the pattern is right, and Glob reports nothing else
	return append(dirs, interfaces...)
}

// RestrictNodes gives the nodes of an HCA to root alone.
func (v *View) RestrictNodes(dev string, id node.ID, nodes []devnode.Node) error {
	return v.setNodes(dev, id, nodes, func(path string, _ devnode.Node) error { return devnode.Set(path, devnode.RootAlone()) })
}

// RestoreNodes gives the nodes of an HCA the access that was read, whatever their numbers are now: moving an
// RDMA device makes its nodes again.
func (v *View) RestoreNodes(dev string, id node.ID, nodes []devnode.Node) error {
	return v.setNodes(dev, id, nodes, devnode.Restore)
}

// TakeBack restricts those nodes of an HCA that a lease gives to a job's user (devnode.Give), where the lease is gone
// that would restore them.
func (v *View) TakeBack(dev string, id node.ID) error {
	d, err := v.Find(id)
	if err != nil {
		return err
	}
	for _, c := range d.Chars {
		if !sysfs.IsHFI(c.Name) {
			continue
		}
		if err := devnode.Set(devnode.Path(dev, c.Name), devnode.RootAlone()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (v *View) setNodes(dev string, id node.ID, nodes []devnode.Node, set func(string, devnode.Node) error) error {
	d, err := v.Find(id)
	if err != nil {
		return err
	}
	if err := v.addRecorded(&d, nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		name := d.nodeName(n)
		if name == "" {
			continue // its module was unloaded (ib_umad): there is no node to restore
		}
		if err := set(devnode.Path(dev, name), n); err != nil {
			return err
		}
	}
	return nil
}

// addRecorded completes a device with the umad and issm devices that a lease's journal has. Those of its own ports
// it asks for by their numbers.
func (v *View) addRecorded(d *Device, nodes []devnode.Node) error {
	if slices.ContainsFunc(nodes, func(n devnode.Node) bool { return n.Port > partPorts }) {
		return v.MAD(d)
	}
	var asked []uint32
	for _, n := range nodes {
		if n.Port == 0 || slices.Contains(asked, n.Port) {
			continue
		}
		asked = append(asked, n.Port)
		chars, err := v.mad(d.Index, n.Port, 0)
		if err != nil {
			return err
		}
		d.Chars = append(d.Chars, chars...)
	}
	return nil
}

func (d Device) nodeName(n devnode.Node) string {
	for _, c := range d.Chars {
		if c.Kind == n.Kind && c.Port == n.Port {
			return c.Name
		}
	}
	return ""
}
