package snapshot

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link"
	"gresnet/lib/link/tc"
)

func differQdisc(_ *Conn, o comparing) (diff []string, err error) {
	if string(o.have.Qdisc) != string(o.want.Qdisc) {
		diff = append(diff, fmt.Sprintf("queueing discipline %s is not what it was (%s)", o.have.Qdisc.Kind(), o.want.Qdisc.Kind()))
	}
	return diff, nil
}

func differPriorities(c *Conn, o comparing) (diff []string, err error) {
	if len(o.want.Priorities) == 0 {
		return nil, nil
	}
	have, err := tc.ReadPriorities(c.Route, o.have.Name)
	if err != nil {
		return nil, fmt.Errorf("read the DCB priorities of %s: %w", o.have.Name, err)
	}
	for _, m := range netlink.Missing(o.want.Priorities, have, netlink.Key) {
		diff = append(diff, fmt.Sprintf("DCB priority %s is missing", m))
	}
	return diff, nil
}

// Leave deletes what a move of the interface takes without telling its driver. It precedes the move, and who has the
// interface's settings restores that.
func (c *Conn) Leave(i link.Interface) error {
	for {
		err := tc.ClearPriorities(c.Route, i.Name)
		if !errors.Is(err, unix.ENODEV) {
			return err
		}
		// DCB knows interfaces by names alone, and udev may just have given this one another.
		name := i.Name
		if i, err = c.Get(i.Index); err != nil || i.Name == name {
			return err
		}
	}
}
