package snapshot

import (
	"fmt"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link/dcb"
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
	have, err := dcb.Read(c.Route, o.have.Name)
	if err != nil {
		return nil, fmt.Errorf("read the DCB priorities of %s: %w", o.have.Name, err)
	}
	for _, m := range netlink.Missing(o.want.Priorities, have, netlink.Key) {
		diff = append(diff, fmt.Sprintf("DCB priority %s is missing", m))
	}
	return diff, nil
}
