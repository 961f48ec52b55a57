package host

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
)

// Absent says why an HCA is not on the node, or not with all interfaces that it had when the node
// table numbered it. It is empty if nothing is missing. If the node has lost the HCA, the error is
// world.ErrGone.
func (l *Look) Absent(t *table.Table, id node.ID) (string, error) {
	if state.IsMoving(l.Host.State.Locks(), id) {
		return "a move of it has not ended", nil
	}
	v, err := scan.Open(l.Host.Sys, scan.NewKnown())
	if err != nil {
		return "", err
	}
	defer v.Close()
	d, err := v.Find(id)
	if errors.Is(err, scan.ErrNotFound) {
		if err := l.World.AwaitLost(id); err != nil {
			return "", err
		}
		return "it is not in the root namespace", nil
	}
	if err != nil {
		return "", err
	}
	ports, err := v.Ports(d)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(t.HCAs, func(h node.HCA) bool { return h.ID == id.Whole() })
	for _, p := range ports {
		had := i >= 0 && slices.ContainsFunc(t.HCAs[i].Ports, func(o node.Port) bool { return o.Num == p.Num && o.Interface != "" })
		if had && p.Interface == nil {
			return fmt.Sprintf("the interface of port %d is not in the root namespace", p.Num), nil
		}
	}
	return "", nil
}
