package link

import (
	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Described is an interface as one RTM_GETLINK tells it.
type Described struct {
	Interface
	Own   Own
	Token []byte // of IPv6 autoconfiguration
	List  netlink.Attributes
}

// Look looks at an interface: at all that is its own.
func (c *Conn) Look(index int) (Described, error) {
	m, err := c.ask(index, change(index, false, 0))
	if err != nil {
		return Described{}, err
	}
	return describe(m)
}

func describe(m []byte) (i Described, err error) {
	if i.Interface, err = decode(m); err != nil {
		return Described{}, err
	}
	i.List = netlink.Attributes(m[unix.SizeofIfInfomsg:])
	i.Own = Own{Name: i.Name, MTU: i.MTU, MAC: i.MAC, Up: i.Up, Running: i.Running, IPoIB: i.IPoIB}
	i.Own.Flags = native.Uint32(m[8:]) & adminFlags // ifi_flags
	i.Own.Attributes = cleanAttributes(i.List)
	if i.Own.AltNames, err = altNames(i.List); err != nil {
		return Described{}, err
	}
	i.Token, err = ipv6Token(i.List)
	return i, err
}
