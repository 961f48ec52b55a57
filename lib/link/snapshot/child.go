package snapshot

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/base/hint"
	"gresnet/lib/link"
)

// Child is an interface that stands on another one. It stays when that is
// moved, but has no carrier then, and is taken down, which costs it IPv6
// addresses and routes. A P_Key child of IPoIB goes when the RDMA device is
// moved, and is made again.
type Child struct {
	ID       link.ID  `json:"id"`
	Index    int      `json:"index,omitempty"`
	PKey     uint16   `json:"pkey,omitempty"`
	Settings Settings `json:"settings"`
}

func readChildren(c *Conn, r *reading) error {
	list, err := c.Children(r.i.Index)
	if err != nil {
		return err
	}
	for _, i := range list {
		s, err := c.snapshot(i.Index, false)
		if err != nil {
			return err
		}
		r.s.Children = append(r.s.Children, Child{i.ID, i.Index, i.PKey, s})
	}
	return nil
}

// findChild finds a child of the interface with an index, which is back. VLANs and
// ipvlans share their parent's hardware address, and theirs changes with the parent's, so their
// IDs do not tell them apart. They stay on the node, so their index does. If somebody made one
// again, its name does. The kernel makes P_Key children again, and their IDs tell them apart.
func (c *Conn) findChild(parent int, child Child) (link.Interface, error) {
	list, err := c.Children(parent)
	if err != nil {
		return link.Interface{}, err
	}
	known := !child.ID.IsPKeyChild()
	alike := slices.DeleteFunc(list, func(i link.Interface) bool {
		return i.ID.Kind != child.ID.Kind || !known && i.ID != child.ID
	})
	for _, same := range []func(link.Interface) bool{
		func(i link.Interface) bool { return i.Index == child.Index },
		func(i link.Interface) bool { return i.Name == child.Settings.Name },
		func(link.Interface) bool { return len(alike) == 1 && !known },
	} {
		if i := slices.IndexFunc(alike, same); i >= 0 {
			return alike[i], nil
		}
	}
	return link.Interface{}, fmt.Errorf("child %s: %w", child.Settings.Name, link.ErrNotFound)
}

// applyChildren gives what stands on an interface all that it had. It must follow what brings the
// interface up: without that a child can neither be up nor have a carrier.
func applyChildren(c *Conn, g *giving) (err error) {
	for _, child := range g.want.Children {
		i, findErr := c.findChild(g.i.Index, child)
		if errors.Is(findErr, link.ErrNotFound) && child.ID.IsPKeyChild() {
			i, findErr = c.makePKeyChild(g.i.Index, child)
		}
		if errors.Is(findErr, link.ErrNotFound) {
			continue // Differences names it
		}
		if findErr != nil {
			return hint.Join(err, findErr)
		}
		err = hint.Join(err, Finished(c.Apply(i.Index, child.Settings, g.stage)))
	}
	return err
}

// makePKeyChild makes an IPoIB interface for a partition again.
func (c *Conn) makePKeyChild(parent int, child Child) (link.Interface, error) {
	var tx, rx int
	if d := child.Settings.Driver; d != nil {
		tx, rx = d.TxQueues, d.RxQueues
	}
	if err := c.MakePKeyChild(parent, child.PKey, tx, rx); err != nil {
		return link.Interface{}, fmt.Errorf("make %s for P_Key %#04x again: %w", child.Settings.Name, child.PKey, err)
	}
	return c.findChild(parent, child)
}

func differChildren(c *Conn, o comparing) (diff []string, err error) {
	for _, child := range o.want.Children {
		name := child.Settings.Name
		i, err := c.findChild(o.index, child)
		if errors.Is(err, link.ErrNotFound) {
			diff = append(diff, fmt.Sprintf("child %s is gone", name))
			continue
		}
		if err != nil {
			return nil, err
		}
		more, err := c.Differences(i.Index, child.Settings)
		if err != nil {
			return nil, err
		}
		for _, d := range more {
			diff = append(diff, fmt.Sprintf("child %s: %s", name, d))
		}
	}
	return diff, nil
}
