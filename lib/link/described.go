package link

import (
	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
	"gresnet/lib/sysctl"
)

// described is an interface as one RTM_GETLINK tells it.
type described struct {
	Interface
	own  Settings // those of it that are the interface's own
	list netlink.Attributes
}

// look looks at an interface: at all that is its own.
func (c *Conn) look(index int) (described, error) {
	m, err := c.ask(index, change(index, false, 0))
	if err != nil {
		return described{}, err
	}
	return describe(m)
}

func describe(m []byte) (i described, err error) {
	if i.Interface, err = decode(m); err != nil {
		return described{}, err
	}
	i.list = netlink.Attributes(m[unix.SizeofIfInfomsg:])
	i.own = Settings{Name: i.Name, MTU: i.MTU, MAC: i.MAC, Up: i.Up, Running: i.Running, IPoIB: i.IPoIB}
	i.own.Flags = native.Uint32(m[8:]) & adminFlags // ifi_flags
	i.own.Attributes = cleanAttributes(i.list)
	if i.own.AltNames, err = altNames(i.list); err != nil {
		return described{}, err
	}
	i.own.Token, err = ipv6Token(i.list)
	return i, err
}

// forSysctls returns the interface as package sysctl has it.
func (i described) forSysctls() sysctl.Interface {
	return sysctl.Interface{Index: i.Index, MTU: i.MTU, Name: i.Name, Described: i.list}
}
