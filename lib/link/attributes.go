package link

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/link/sysctl"
)

// adminFlags are the flags that only an administrator changes, IFF_UP apart;
// the others are the kernel's (dev.c:__dev_change_flags). RTM_GETLINK gives
// IFF_PROMISC and IFF_ALLMULTI as they were asked for, not as packet sockets
// and children have them now (dev.c:dev_get_flags).
const adminFlags = unix.IFF_NOARP | unix.IFF_MULTICAST | unix.IFF_DYNAMIC | unix.IFF_DEBUG | unix.IFF_NOTRAILERS |
	unix.IFF_PORTSEL | unix.IFF_AUTOMEDIA | unix.IFF_PROMISC | unix.IFF_ALLMULTI

// attributeNames returns the attributes that RTM_NEWLINK takes as RTM_GETLINK
// gives them, whatever the driver is (rtnetlink.c:do_setlink), in the order in
// which one may override another. One that RTM_GETLINK lacks while it is not set
// needs a line in ApplyAttributes that takes it back, as IFLA_IFALIAS has. The
// name, MTU and MAC have rules of their own.
func attributeNames() []struct {
	kind uint16
	name string
} {
	return []struct {
		kind uint16
		name string
	}{
		{unix.IFLA_IFALIAS, "alias"}, // absent if there is none
		{unix.IFLA_GROUP, "group"},
		{unix.IFLA_TXQLEN, "txqueuelen"}, // packets
		{unix.IFLA_LINKMODE, "link mode"},
		{unix.IFLA_GSO_MAX_SIZE, "gso_max_size"}, // bytes, as all that follow but segments
		{unix.IFLA_GSO_MAX_SEGS, "gso_max_segs"},
		{unix.IFLA_GRO_MAX_SIZE, "gro_max_size"},
		{unix.IFLA_GSO_IPV4_MAX_SIZE, "gso_ipv4_max_size"},
		{iflaGROIPv4MaxSize, "gro_ipv4_max_size"},
	}
}

// iflaGROIPv4MaxSize is IFLA_GRO_IPV4_MAX_SIZE of linux/if_link.h.
const iflaGROIPv4MaxSize = 64

// cleanAttributes keeps of an interface as dumped what attributeNames lists, in that order.
func cleanAttributes(list netlink.Attributes) netlink.Attributes {
	var out netlink.Attributes
	for _, a := range attributeNames() {
		if v, ok := list.Find(a.kind); ok {
			out = netlink.Append(out, a.kind, v)
		}
	}
	return out
}

// Differing names the attributes that are not the same in two lists of them.
func Differing(have, want netlink.Attributes) []string {
	h, w := netlink.Kept(have, 0), netlink.Kept(want, 0)
	var names []string
	for _, a := range attributeNames() {
		x, inHave := h.Find(a.kind)
		y, inWant := w.Find(a.kind)
		if inHave != inWant || !bytes.Equal(x, y) {
			names = append(names, a.name)
		}
	}
	return names
}

// ApplyAttributes sends all attributes if one differs, since the kernel adapts
// some of the sizes to the others.
func (c *Conn) ApplyAttributes(index int, have, want Own) error {
	names := Differing(have.Attributes, want.Attributes)
	if have.Flags != want.Flags {
		names = append(names, "flags")
	}
	if len(names) == 0 {
		return nil
	}
	m := append(setFlags(index, want.Flags, adminFlags), want.Attributes...)
	if _, ok := netlink.Kept(want.Attributes, 0).Find(unix.IFLA_IFALIAS); !ok {
		m = netlink.Append(m, unix.IFLA_IFALIAS, nil)
	}
	if err := c.setLink(m); err != nil {
		return fmt.Errorf("set %s of %s: %w", strings.Join(names, ", "), want.Name, err)
	}
	return nil
}

// altNames returns the alternative names of an interface as dumped.
func altNames(list netlink.Attributes) ([]string, error) {
	inner, err := list.Nested(unix.IFLA_PROP_LIST)
	if err != nil {
		return nil, err
	}
	var names []string
	for a := range inner.All() {
		if a.Kind == unix.IFLA_ALT_IFNAME {
			names = append(names, unix.ByteSliceToString(a.Value))
		}
	}
	return names, nil
}

// ApplyAltNames gives an interface its alternative names, and no other ones.
func (c *Conn) ApplyAltNames(index int, have, want Own) error {
	for _, name := range have.AltNames {
		if slices.Contains(want.AltNames, name) {
			continue
		}
		if err := c.dropAltName(index, name); err != nil {
			return fmt.Errorf("remove alternative name %s from %s: %w", name, want.Name, err)
		}
	}
	for _, name := range want.AltNames {
		if slices.Contains(have.AltNames, name) {
			continue
		}
		err := c.altName(unix.RTM_NEWLINKPROP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_APPEND, index, name)
		if err = named(err); errors.Is(err, ErrNameTaken) {
			err = ErrAltNameTaken
		}
		if err != nil {
			return fmt.Errorf("add alternative name %s to %s: %w", name, want.Name, err)
		}
	}
	return nil
}

// DropAltNames takes its alternative names from an interface, with which the kernel
// does not move it to where another has one of them.
func (c *Conn) DropAltNames(index int) error {
	i, err := c.Look(index)
	if err != nil {
		return err
	}
	return c.ApplyAltNames(index, i.Own, Own{Name: i.Name})
}

// dropAltName takes an alternative name from an interface. udev may have made it the name itself in
// the meantime, or taken it away: it is no alternative one any more, and the kernel says EINVAL or ENOENT
// (rtnetlink.c:rtnl_alt_ifname).
func (c *Conn) dropAltName(index int, name string) error {
	err := c.altName(unix.RTM_DELLINKPROP, 0, index, name)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (c *Conn) altName(kind, flags, index int, name string) error {
	inner := netlink.AppendText(nil, unix.IFLA_ALT_IFNAME, name)
	m := netlink.Append(change(index, false, 0), unix.IFLA_PROP_LIST|unix.NLA_F_NESTED, inner)
	_, err := c.send(kind, flags|unix.NLM_F_ACK, 0, m)
	return err
}

// ipv6Token returns the host part that the interface gives its autoconfigured
// addresses (`ip token`), sixteen bytes; nil if it has none.
func ipv6Token(list netlink.Attributes) ([]byte, error) {
	for _, kind := range []uint16{unix.IFLA_AF_SPEC, unix.AF_INET6} {
		var err error
		if list, err = list.Nested(kind); err != nil {
			return nil, err
		}
	}
	token := list.Value(unix.IFLA_INET6_TOKEN)
	if bytes.Count(token, []byte{0}) == len(token) {
		return nil, nil
	}
	return slices.Clone(token), nil
}

// ApplyToken must follow what brings the interface up and sets accept_ra: the
// kernel takes no token before (addrconf.c:inet6_set_iftoken).
func (c *Conn) ApplyToken(i Described, want Own, token []byte) error {
	if bytes.Equal(i.Token, token) {
		return nil
	}
	if token == nil {
		token = make([]byte, 16)
	}
	err := c.setToken(i.Index, token)
	if errors.Is(err, unix.EINVAL) {
		err = c.setTokenDespite(i, want, token)
	}
	if err != nil {
		return fmt.Errorf("set the IPv6 token of %s: %w", want.Name, err)
	}
	return nil
}

func (c *Conn) setToken(index int, token []byte) error {
	m := netlink.Append(nil, unix.IFLA_INET6_TOKEN, token)
	m = netlink.Append(nil, unix.AF_INET6|unix.NLA_F_NESTED, m)
	m = netlink.Append(change(index, false, 0), unix.IFLA_AF_SPEC|unix.NLA_F_NESTED, m)
	return c.setLink(m)
}

// setTokenDespite sets a token on an interface that heeds no router advertisements, as one that
// forwards: the kernel takes none then, and keeps one that was set before
// (addrconf.c:inet6_set_iftoken). It is made to heed them for that moment. If that is cut short,
// the next run gives it its sysctls and its flags.
func (c *Conn) setTokenDespite(i Described, want Own, token []byte) (err error) {
	if want.Flags&unix.IFF_NOARP != 0 {
		if err := c.setNoARP(i.Index, false); err != nil {
			return err
		}
		defer func() { err = hint.Join(err, c.setNoARP(i.Index, true)) }()
	}
	for key, value := range map[string]string{"ipv6/conf/accept_ra": "2", "ipv6/conf/router_solicitations": "1"} {
		path := sysctl.Path(key, i.Name)
		had, readErr := sysctl.ReadFile(path)
		if readErr != nil {
			return readErr
		}
		if err := os.WriteFile(path, []byte(value), 0); err != nil {
			return err
		}
		defer func() { err = hint.Join(err, os.WriteFile(path, []byte(had), 0)) }()
	}
	return c.setToken(i.Index, token)
}

func (c *Conn) setNoARP(index int, on bool) error {
	return c.setLink(change(index, on, unix.IFF_NOARP))
}

// IPoIB is what only an IPoIB interface has.
type IPoIB struct {
	Connected bool `json:"connected,omitempty"` // connected mode, not datagram
	Umcast    bool `json:"umcast,omitempty"`    // user space joins multicast groups
}

// Attributes of IPoIB in IFLA_INFO_DATA, and the values of its mode (linux/if_link.h).
const (
	ipoibPKey   = 1
	ipoibMode   = 2
	ipoibUmcast = 3
)

// SetIPoIBOf gives the IPoIB interface with an index what only such an interface has.
func (c *Conn) SetIPoIBOf(index int, want IPoIB) error {
	i, err := c.Get(index)
	if err != nil {
		return err
	}
	return c.SetIPoIB(i, Own{IPoIB: want})
}

// SetIPoIB must precede setMTU: the mode decides what MTU may be, and is given one by the kernel.
func (c *Conn) SetIPoIB(have Interface, want Own) error {
	if have.ID.Kind != "ipoib" || have.IPoIB == want.IPoIB {
		return nil
	}
	var data []byte
	if have.IPoIB.Connected != want.IPoIB.Connected {
		data = netlink.Append(data, ipoibMode, bit16(want.IPoIB.Connected))
	}
	if have.IPoIB.Umcast != want.IPoIB.Umcast {
		data = netlink.Append(data, ipoibUmcast, bit16(want.IPoIB.Umcast))
	}
	info := netlink.Append(nil, unix.IFLA_INFO_KIND, []byte("ipoib"))
	info = netlink.Append(info, unix.IFLA_INFO_DATA|unix.NLA_F_NESTED, data)
	m := netlink.Append(change(have.Index, false, 0), unix.IFLA_LINKINFO|unix.NLA_F_NESTED, info)
	if err := c.Budget.Try(poll.IPoIBMode, unix.EBUSY, func() error { return c.setLink(m) }); err != nil {
		return fmt.Errorf("set IPoIB's mode and umcast of %s: %w", have.Name, err)
	}
	return nil
}

func bit16(on bool) []byte {
	if on {
		return native.AppendUint16(nil, 1)
	}
	return native.AppendUint16(nil, 0)
}
