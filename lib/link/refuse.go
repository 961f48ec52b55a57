package link

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// refuse says why an interface that has these settings could not be put back
// as it is, if it could not.
func (c *Conn) refuse(i described, s Settings) error {
	if err := c.refuseMaster(i); err != nil {
		return err
	}
	if attached(i.list) {
		return fmt.Errorf("%s has an XDP program attached, which gresnet cannot restore", s.Name)
	}
	if err := c.refuseChildren(i.Index, s.Name); err != nil {
		return err
	}
	return c.refuseQdisc(i.Index, s)
}

// refuseMaster refuses a bond's slave, a bridge's port and the like: leaving
// undoes what the master may not survive (bond_main.c:bond_release_and_destroy).
func (c *Conn) refuseMaster(i described) error {
	if i.Master == 0 {
		return nil
	}
	master, err := c.Get(i.Master)
	if err != nil {
		return fmt.Errorf("read the master of %s: %w", i.Name, err)
	}
	return fmt.Errorf("%s belongs to %s %s, to which gresnet cannot give it back", i.Name, master.ID.Kind, master.Name)
}

// attached tells whether an XDP program is attached, in whichever mode.
func attached(list attrs) bool {
	v, _ := find(list, unix.IFLA_XDP)
	inner, _ := attributes(v)
	mode, _ := find(inner, unix.IFLA_XDP_ATTACHED)
	return len(mode) == 1 && mode[0] != 0
}

func (c *Conn) refuseChildren(index int, name string) error {
	children, err := c.children(index)
	if err != nil {
		return err
	}
	var lost []string
	for _, child := range children {
		if !child.returns() {
			lost = append(lost, child.Name)
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%s stands on %s, and gresnet cannot restore it", strings.Join(lost, ", "), name)
	}
	return nil
}
