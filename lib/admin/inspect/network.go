package inspect

import (
	"context"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/lease/host"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/network/virtual"
)

// Uplinks returns where the node's jobs would get their uplinks from now, for one who
// only wants to know; nil if they have none.
func Uplinks(n *host.Host) (*jobnet.Pool, error) {
	l, done, err := n.LookFor(context.Background(), 0)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := nameTaken(n, "uplink", n.Config.Uplink.Name); err != nil && n.Config.Uplink.On() {
		return nil, err
	}
	return l.Pool()
}

// nameTaken is an error if an interface has a name that jobs can get.
func nameTaken(n *host.Host, table, name string) error {
	m, err := n.Mapping()
	if err != nil {
		return nil // which others say
	}
	for _, e := range m {
		if (!e.Keep || e.Slot != nil) && slices.ContainsFunc(e.HCA.Ports, func(p node.Port) bool { return p.Interface == name }) {
			return host.NameTaken(table, name)
		}
	}
	return nil
}

// CheckOverlay is why jobs cannot have an overlay as the site wants it, as far as the node tells.
func CheckOverlay(n *host.Host) error {
	if !n.Config.Overlay.On() {
		return nil
	}
	l, done, err := n.LookFor(context.Background(), 0)
	if err != nil {
		return err
	}
	defer done()
	if err := nameTaken(n, "overlay", n.Config.Overlay.Interface); n.Config.Overlay.Interface != "" && err != nil {
		return err
	}
	return l.World.OnHost(func(*scan.View) error { return virtual.HoldsLowPorts() })
}
