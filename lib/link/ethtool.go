package link

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/netlink"
)

// ethtoolKind is a pair of requests of which one takes what the other tells.
type ethtoolKind struct {
	name     string
	get, set byte
	first    uint16 // of the attributes that can be set: what a device can have at most comes before
}

// ethtoolKinds are what ethtool sets of an interface, in the order in which one may
// change another, but for its features, which have their own form.
func ethtoolKinds() []ethtoolKind {
	return []ethtoolKind{
		{"private flags", unix.ETHTOOL_MSG_PRIVFLAGS_GET, unix.ETHTOOL_MSG_PRIVFLAGS_SET, unix.ETHTOOL_A_PRIVFLAGS_FLAGS},
		{"channels", unix.ETHTOOL_MSG_CHANNELS_GET, unix.ETHTOOL_MSG_CHANNELS_SET, unix.ETHTOOL_A_CHANNELS_RX_COUNT},
		{"ring sizes", unix.ETHTOOL_MSG_RINGS_GET, unix.ETHTOOL_MSG_RINGS_SET, unix.ETHTOOL_A_RINGS_RX},
		{"coalescing parameters", unix.ETHTOOL_MSG_COALESCE_GET, unix.ETHTOOL_MSG_COALESCE_SET, unix.ETHTOOL_A_COALESCE_RX_USECS},
	}
}

// ethtoolHeader is ETHTOOL_A_*_HEADER, the first attribute of each request and answer.
const ethtoolHeader = 1

// genlHead is the size of struct genlmsghdr: a command, a version and 16 unused bits.
const genlHead = 4

// ethtoolGet reads the attributes of a kind that can be set. What the driver, or the
// kernel, does not have is nil.
func (c *Conn) ethtoolGet(kind ethtoolKind, index int) (Message, error) {
	list, err := c.ethtoolAsk(kind.get, index)
	if err != nil || list == nil {
		return nil, err
	}
	return kind.settable(list), nil
}

// settable are the attributes of an answer that a request to set may have.
func (k ethtoolKind) settable(list netlink.Attributes) Message {
	m := Message{}
	for a := range list.All() {
		if a.Type() >= k.first {
			m = netlink.Append(m, a.Kind, a.Value)
		}
	}
	return m
}

// ethtoolAsk returns what the kernel says to a request that only reads; nil: nothing.
func (c *Conn) ethtoolAsk(command byte, index int) (netlink.Attributes, error) {
	family, err := c.ethtoolFamily()
	if err != nil || family == 0 {
		return nil, err
	}
	answers, err := c.generic.Do(int(family), 0, family, ethtoolRequest(command, index, 0))
	if err == unix.EOPNOTSUPP {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return genlAttributes(answers)
}

// ethtoolSet sets attributes, and has no answer but for the result.
func (c *Conn) ethtoolSet(command byte, index int, attributes []byte) error {
	family, err := c.ethtoolFamily()
	if err != nil {
		return err
	}
	c.changes++
	m := append(ethtoolRequest(command, index, unix.ETHTOOL_FLAG_OMIT_REPLY), attributes...)
	_, err = c.generic.Do(int(family), unix.NLM_F_ACK, family, m)
	return err
}

// ethtoolRequest is the head of a message about an interface.
func ethtoolRequest(command byte, index int, flags uint32) []byte {
	head := netlink.AppendUint32(nil, unix.ETHTOOL_A_HEADER_DEV_INDEX, uint32(index))
	head = netlink.AppendUint32(head, unix.ETHTOOL_A_HEADER_FLAGS, flags)
	return netlink.Append([]byte{command, unix.ETHTOOL_GENL_VERSION, 0, 0}, ethtoolHeader|unix.NLA_F_NESTED, head)
}

// ethtoolFamily is the number under which the kernel takes requests of ethtool, 0 if it
// takes none.
func (c *Conn) ethtoolFamily() (uint16, error) {
	if c.generic != nil {
		return c.family, nil
	}
	s, err := netlink.Open(unix.NETLINK_GENERIC)
	if err != nil {
		return 0, fmt.Errorf("open generic netlink: %w", err)
	}
	m := netlink.AppendText([]byte{unix.CTRL_CMD_GETFAMILY, 1, 0, 0}, unix.CTRL_ATTR_FAMILY_NAME, unix.ETHTOOL_GENL_NAME)
	answers, err := s.Do(unix.GENL_ID_CTRL, 0, unix.GENL_ID_CTRL, m)
	if err == unix.ENOENT {
		c.generic = s
		return 0, nil
	}
	var list netlink.Attributes
	if err == nil {
		list, err = genlAttributes(answers)
	}
	if err != nil {
		s.Close()
		return 0, err
	}
	c.generic, c.family = s, uint16(list.Number(unix.CTRL_ATTR_FAMILY_ID))
	return c.family, nil
}

// genlAttributes are those of the one answer that there is to a request.
func genlAttributes(answers [][]byte) (netlink.Attributes, error) {
	if len(answers) != 1 || len(answers[0]) < genlHead {
		return nil, errors.New("the kernel does not answer")
	}
	return netlink.Parse(answers[0][genlHead:])
}

// features are the features that an administrator, or the driver by default, asks for.
func (c *Conn) features(index int) ([]string, error) {
	list, err := c.ethtoolAsk(unix.ETHTOOL_MSG_FEATURES_GET, index)
	if err != nil {
		return nil, err
	}
	return wanted(list)
}

// wanted are the names of the features that an answer says to be asked for, sorted.
func wanted(list netlink.Attributes) (names []string, err error) {
	for _, kind := range []uint16{unix.ETHTOOL_A_FEATURES_WANTED, unix.ETHTOOL_A_BITSET_BITS} { // those that are set
		if list, err = list.Nested(kind); err != nil {
			return nil, err
		}
	}
	for a := range list.All() {
		bit, err := netlink.Parse(a.Value)
		if err != nil {
			return nil, err
		}
		names = append(names, bit.Text(unix.ETHTOOL_A_BITSET_BIT_NAME))
	}
	slices.Sort(names)
	return names, nil
}

// applyFeatures asks for the features that are wanted, and for no other one any more.
func (c *Conn) applyFeatures(index int, want []string) error {
	have, err := c.features(index)
	if err != nil {
		return err
	}
	var bits []byte
	ask := func(feature string, on bool) {
		bit := netlink.AppendText(nil, unix.ETHTOOL_A_BITSET_BIT_NAME, feature)
		if on {
			bit = netlink.Append(bit, unix.ETHTOOL_A_BITSET_BIT_VALUE, nil)
		}
		bits = netlink.Append(bits, unix.ETHTOOL_A_BITSET_BITS_BIT|unix.NLA_F_NESTED, bit)
	}
	for _, f := range lacking(want, have) {
		ask(f, true)
	}
	for _, f := range lacking(have, want) {
		ask(f, false)
	}
	if bits == nil {
		return nil
	}
	set := netlink.Append(nil, unix.ETHTOOL_A_BITSET_BITS|unix.NLA_F_NESTED, bits)
	return c.ethtoolSet(unix.ETHTOOL_MSG_FEATURES_SET, index, netlink.Append(nil, unix.ETHTOOL_A_FEATURES_WANTED|unix.NLA_F_NESTED, set))
}
