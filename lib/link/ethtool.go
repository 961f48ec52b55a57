package link

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"gresnet/lib/socket"
)

// ethtoolKind is a pair of requests of which one takes what the other tells.
type ethtoolKind struct{ get, set byte }

// ethtoolKinds are what ethtool sets of an interface but for its features, which have
// their own form.
func ethtoolKinds() map[string]ethtoolKind {
	return map[string]ethtoolKind{
		"private flags":         {unix.ETHTOOL_MSG_PRIVFLAGS_GET, unix.ETHTOOL_MSG_PRIVFLAGS_SET},
		"channels":              {unix.ETHTOOL_MSG_CHANNELS_GET, unix.ETHTOOL_MSG_CHANNELS_SET},
		"ring sizes":            {unix.ETHTOOL_MSG_RINGS_GET, unix.ETHTOOL_MSG_RINGS_SET},
		"coalescing parameters": {unix.ETHTOOL_MSG_COALESCE_GET, unix.ETHTOOL_MSG_COALESCE_SET},
	}
}

// ethtoolHeader is ETHTOOL_A_*_HEADER, the first attribute of each request and answer.
const ethtoolHeader = 1

// genlHead is the size of struct genlmsghdr: a command, a version and 16 unused bits.
const genlHead = 4

// ethtool does one request about an interface, and returns the attributes that it is
// answered with. What the driver, or the kernel, does not have is nil.
func (c *Conn) ethtool(command byte, index, flags int, body []byte) (Message, error) {
	family, err := c.ethtoolFamily()
	if errors.Is(err, unix.ENOENT) {
		return nil, nil // a kernel before 5.6
	}
	if err != nil {
		return nil, err
	}
	head := attribute(nil, unix.ETHTOOL_A_HEADER_DEV_INDEX, native.AppendUint32(nil, uint32(index)))
	if flags&unix.NLM_F_ACK != 0 {
		head = attribute(head, unix.ETHTOOL_A_HEADER_FLAGS, native.AppendUint32(nil, unix.ETHTOOL_FLAG_OMIT_REPLY))
	}
	m := attribute([]byte{command, unix.ETHTOOL_GENL_VERSION, 0, 0}, ethtoolHeader|unix.NLA_F_NESTED, head)
	answers, err := c.generic.Do(int(family), flags, family, append(m, body...))
	if err == unix.EOPNOTSUPP && flags&unix.NLM_F_ACK == 0 {
		return nil, nil
	}
	if err != nil || len(answers) == 0 {
		return nil, err
	}
	if len(answers[0]) < genlHead {
		return nil, fmt.Errorf("an answer of %d bytes", len(answers[0]))
	}
	list, err := attributes(answers[0][genlHead:])
	if err != nil {
		return nil, err
	}
	told := Message{}
	for a := range list.all() {
		if a.kind&^unix.NLA_F_NESTED != ethtoolHeader {
			told = attribute(told, a.kind, a.value)
		}
	}
	return told, nil
}

// ethtoolFamily is the number under which the kernel takes requests of ethtool.
func (c *Conn) ethtoolFamily() (uint16, error) {
	if c.family != 0 {
		return c.family, nil
	}
	if c.generic == nil {
		s, err := socket.Open(unix.NETLINK_GENERIC)
		if err != nil {
			return 0, fmt.Errorf("open generic netlink: %w", err)
		}
		s.Meter = c.socket.Meter
		c.generic = s
	}
	m := attribute([]byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0}, unix.CTRL_ATTR_FAMILY_NAME, nl.ZeroTerminated(unix.ETHTOOL_GENL_NAME))
	answers, err := c.generic.Do(unix.GENL_ID_CTRL, 0, unix.GENL_ID_CTRL, m)
	if err != nil {
		return 0, err
	}
	if len(answers) == 0 || len(answers[0]) < genlHead {
		return 0, errors.New("the kernel does not say what ethtool's family is")
	}
	list, err := attributes(answers[0][genlHead:])
	if err != nil {
		return 0, err
	}
	c.family = uint16(numberIn(list, unix.CTRL_ATTR_FAMILY_ID))
	return c.family, nil
}

// features are the features that an administrator, or the driver by default, asks for.
func (c *Conn) features(index int) (names []string, err error) {
	told, err := c.ethtool(unix.ETHTOOL_MSG_FEATURES_GET, index, 0, nil)
	if err != nil {
		return nil, err
	}
	list, err := attributes(told)
	if err != nil {
		return nil, err
	}
	wanted, _ := find(list, unix.ETHTOOL_A_FEATURES_WANTED)
	if list, err = attributes(wanted); err != nil {
		return nil, err
	}
	bits, _ := find(list, unix.ETHTOOL_A_BITSET_BITS) // those that are set
	if list, err = attributes(bits); err != nil {
		return nil, err
	}
	for a := range list.all() {
		bit, err := attributes(a.value)
		if err != nil {
			return nil, err
		}
		name, _ := find(bit, unix.ETHTOOL_A_BITSET_BIT_NAME)
		names = append(names, unix.ByteSliceToString(name))
	}
	slices.Sort(names)
	return names, nil
}

// toggled asks for what makes of features those that are wanted; nil: they are.
func toggled(have, want []string) []byte {
	var bits []byte
	for _, f := range lacking(want, have) {
		bit := attribute(attribute(nil, unix.ETHTOOL_A_BITSET_BIT_NAME, nl.ZeroTerminated(f)), unix.ETHTOOL_A_BITSET_BIT_VALUE, nil)
		bits = attribute(bits, unix.ETHTOOL_A_BITSET_BITS_BIT|unix.NLA_F_NESTED, bit)
	}
	for _, f := range lacking(have, want) {
		bit := attribute(nil, unix.ETHTOOL_A_BITSET_BIT_NAME, nl.ZeroTerminated(f))
		bits = attribute(bits, unix.ETHTOOL_A_BITSET_BITS_BIT|unix.NLA_F_NESTED, bit)
	}
	if bits == nil {
		return nil
	}
	set := attribute(nil, unix.ETHTOOL_A_BITSET_BITS|unix.NLA_F_NESTED, bits)
	return attribute(nil, unix.ETHTOOL_A_FEATURES_WANTED|unix.NLA_F_NESTED, set)
}
