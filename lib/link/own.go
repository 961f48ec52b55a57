package link

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/netlink"
)

// Own is what is an interface's own, and not of what it has.
type Own struct {
	Name       string             `json:"name"`
	MTU        int                `json:"mtu"`
	MAC        string             `json:"mac"`
	Up         bool               `json:"up"`
	Running    bool               `json:"running"`
	Flags      uint32             `json:"flags"` // IFF_NOARP and the like
	AltNames   []string           `json:"altnames,omitempty"`
	Attributes netlink.Attributes `json:"attributes,omitempty"` // of RTM_NEWLINK: alias, group and the like
	IPoIB      IPoIB              `json:"ipoib"`
}

// SetState brings the interface, which was just looked at, up or down, and tells what it is then.
func (c *Conn) SetState(have Interface, want Own) (Interface, error) {
	if have.Up == want.Up {
		return have, nil
	}
	if err := c.set(have.Index, want.Up); err != nil {
		return have, fmt.Errorf("bring %s %s: %w", want.Name, UpOrDown(want.Up), err)
	}
	c.Budget.Forget(poll.Carrier.Of(have.ID)) // its time begins again
	return c.Get(have.Index)
}

// Rename gives an interface a name, for which it is brought down, and says so in have.
func (c *Conn) Rename(have *Interface, name string) error {
	if have.Name == name {
		return nil
	}
	if err := c.awaitName(have.Index, name); err != nil {
		return fmt.Errorf("rename %s to %s: %w", have.Name, name, err)
	}
	// Kernels before 6.2 refuse to rename an interface that is up.
	if have.Up {
		if err := c.down(have.Index); err != nil {
			return fmt.Errorf("bring %s down to rename it: %w", have.Name, err)
		}
		have.Up = false
	}
	m := netlink.AppendText(change(have.Index, false, 0), unix.IFLA_IFNAME, name)
	err := named(c.setLink(m))
	for tries := 3; errors.Is(err, ErrNameTaken) && tries > 0; tries-- {
		// udev may have made it an alternative one of this very interface meanwhile.
		if err = c.awaitName(have.Index, name); err == nil {
			err = named(c.setLink(m))
		}
	}
	if err != nil {
		return fmt.Errorf("rename %s to %s: %w", have.Name, name, err)
	}
	have.Name = name
	return nil
}

// awaitName waits until no other interface has a name, or is ErrNameTaken. udev may have given the
// name to the interface itself as an alternative one: it does so to what was renamed before udev
// came to it, and the kernel does not let an interface have a name twice.
func (c *Conn) awaitName(index int, name string) error {
	request := netlink.AppendText(change(0, false, 0), unix.IFLA_IFNAME, name)
	bound := poll.Rename
	free, err := c.Budget.UntilOne(func() poll.Bound { return bound }, func() (bool, error) {
		answers, err := c.send(unix.RTM_GETLINK, 0, unix.RTM_NEWLINK, request) // also by alternative names
		var has Interface
		if err == nil && len(answers) == 1 {
			has, err = decode(answers[0])
		}
		switch {
		case errors.Is(err, unix.ENODEV):
			return true, nil
		case err != nil:
			return false, err
		case has.Index == index:
			return true, c.dropAltName(index, name)
		case has.ID.Kind == "ipoib" && !has.Up:
			bound = poll.NewName // the kernel may have made and named it a moment ago, as an HCA with IPoIB came back
		default:
			bound = poll.Rename
		}
		return false, nil
	})
	if !free && err == nil {
		return ErrNameTaken
	}
	return err
}

// SetMTU gives an interface an MTU.
func (c *Conn) SetMTU(index int, have Own, mtu int) error {
	if have.MTU == mtu {
		return nil
	}
	m := netlink.AppendUint32(change(index, false, 0), unix.IFLA_MTU, uint32(mtu))
	if err := c.setLink(m); err != nil {
		return fmt.Errorf("set the MTU of %s to %d: %w", have.Name, mtu, err)
	}
	return nil
}

// SetMAC gives an interface a hardware address, but for one of IPoIB.
func (c *Conn) SetMAC(index int, have Own, mac string) error {
	if have.MAC == mac || IsIPoIB(mac) {
		return nil
	}
	hw, err := parseMAC(mac)
	if err != nil {
		return err
	}
	m := netlink.Append(change(index, false, 0), unix.IFLA_ADDRESS, hw)
	if err := c.setLink(m); err != nil {
		return fmt.Errorf("set the MAC of %s to %s: %w", have.Name, mac, err)
	}
	return nil
}

// UpOrDown says in which state an interface is.
func UpOrDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}
