package link

import (
	"errors"
	"fmt"
	"slices"
)

// Child is an interface that stands on another one. It stays when that is
// moved, but has no carrier then, and a VLAN is taken down, which costs it
// IPv6 addresses and routes (vlan.c:vlan_device_event).
type Child struct {
	ID       ID       `json:"id"`
	Settings Settings `json:"settings"`
}

// stays tells children that outlive the move of what they stand on; others,
// such as a VXLAN's or MACsec's, are destroyed with it.
func (i Interface) stays() bool {
	return slices.Contains([]string{"vlan", "macvlan", "macvtap", "ipvlan", "ipvtap"}, i.ID.Kind)
}

// children are the interfaces of the namespace that stand on the one with an
// index. A veth's peer is called its parent, too, but is none.
func (c *Conn) children(index int) ([]Interface, error) {
	list, err := c.List()
	return slices.DeleteFunc(list, func(i Interface) bool { return i.Parent != index || i.ID.Kind == "veth" }), err
}

func (c *Conn) readChildren(index int) ([]Child, error) {
	list, err := c.children(index)
	if err != nil {
		return nil, err
	}
	var children []Child
	for _, i := range list {
		s, err := c.snapshot(i.Index)
		if err != nil {
			return nil, err
		}
		children = append(children, Child{i.ID, s})
	}
	return children, nil
}

// restoreChildren must follow what brings the parent up, without which a child
// can neither be up nor have a carrier.
func (c *Conn) restoreChildren(children []Child) (err error) {
	for _, child := range children {
		i, findErr := c.Find(child.ID)
		if errors.Is(findErr, ErrNotFound) {
			continue // Differences names it
		}
		if findErr != nil {
			return also(err, findErr)
		}
		err = also(err, c.Restore(i.Index, child.Settings))
	}
	return err
}

func (c *Conn) childDifferences(children []Child) ([]string, error) {
	var diff []string
	for _, child := range children {
		name := child.Settings.Name
		i, err := c.Find(child.ID)
		if errors.Is(err, ErrNotFound) {
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
