// Package ethtool reads and sets what drivers keep for an interface: features, channels, rings and
// coalescing, over generic netlink, and the files of its queues in /sys. An IPoIB interface that is made again
// loses all of these on mlx5 (ipoib/ethtool.c:mlx5i_ethtool_ops); no driver has private flags for one.
package ethtool

import (
	"bytes"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/netlink"
)

// kind is a pair of requests: one takes what the other tells.
type kind struct {
	name     string
	get, set byte
	first    uint16 // of the attributes that can be set: what a device can have at most comes before
}

// kinds returns what ethtool sets of an interface, in the order in which one may
// change another, but for its features, which have their own form.
func kinds() []kind {
	return []kind{
		{"channels", unix.ETHTOOL_MSG_CHANNELS_GET, unix.ETHTOOL_MSG_CHANNELS_SET, unix.ETHTOOL_A_CHANNELS_RX_COUNT},
		{"ring sizes", unix.ETHTOOL_MSG_RINGS_GET, unix.ETHTOOL_MSG_RINGS_SET, unix.ETHTOOL_A_RINGS_RX},
		{"coalescing parameters", unix.ETHTOOL_MSG_COALESCE_GET, unix.ETHTOOL_MSG_COALESCE_SET, unix.ETHTOOL_A_COALESCE_RX_USECS},
	}
}

// header is ETHTOOL_A_*_HEADER, the first attribute of each request and answer.
const header = 1

// Conn asks about the network namespace that the calling thread is in when it first does. The zero
// Conn has not asked yet.
type Conn struct {
	socket  *netlink.Socket
	family  uint16 // ethtool's, 0 if the kernel has none
	changes int    // how many requests were for one
}

// Close closes the connection.
func (c *Conn) Close() {
	if c.socket != nil {
		c.socket.Close()
	}
}

// Changes returns how many requests were for a change.
func (c *Conn) Changes() int { return c.changes }

// Attributes are those that a driver has of a kind and that can be set.
type Attributes []byte

// Settings is what a driver keeps for an interface as long as there is one.
type Settings struct {
	Features []string              `json:"features,omitempty"` // that were asked for, sorted; not all can be had
	Ethtool  map[string]Attributes `json:"ethtool,omitempty"`  // by the name of their kind
}

// Read reads the settings of an interface.
func (c *Conn) Read(index int, name string) (Settings, error) {
	s := Settings{Ethtool: map[string]Attributes{}}
	var err error
	if s.Features, err = c.Features(index); err != nil {
		return Settings{}, fmt.Errorf("read the features of %s: %w", name, err)
	}
	for _, kind := range kinds() {
		m, err := c.get(kind, index)
		if err != nil {
			return Settings{}, fmt.Errorf("read the %s of %s: %w", kind.name, name, err)
		}
		if m != nil {
			s.Ethtool[kind.name] = m
		}
	}
	return s, nil
}

// Apply sets what is not as it was.
func (c *Conn) Apply(index int, name string, want Settings) error {
	err := c.SetFeatures(index, want.Features)
	if err != nil {
		err = fmt.Errorf("set the features of %s: %w", name, err)
	}
	for _, kind := range kinds() {
		if e := c.apply(kind, index, want.Ethtool[kind.name]); e != nil {
			err = hint.Join(err, fmt.Errorf("set the %s of %s: %w", kind.name, name, e))
		}
	}
	return err
}

// apply sets the attributes of a kind. One may reset others: of coalescing that
// adapts itself mlx5 forgets what else is set with it (mlx5e_ethtool_set_coalesce), so it
// is sent a second time.
func (c *Conn) apply(kind kind, index int, want Attributes) error {
	for range 2 {
		have, err := c.get(kind, index)
		if err != nil {
			return err
		}
		body := changed(have, want)
		if body == nil {
			return nil
		}
		if err := c.set(kind.set, index, body); err != nil {
			return err
		}
	}
	return nil
}

// Differences names what is not as it was.
func (s Settings) Differences(want Settings) (diff []string) {
	for _, f := range lacking(want.Features, s.Features) {
		diff = append(diff, fmt.Sprintf("feature %s is off, was on", f))
	}
	for _, f := range lacking(s.Features, want.Features) {
		diff = append(diff, fmt.Sprintf("feature %s is on, was off", f))
	}
	for _, kind := range kinds() {
		if changed(s.Ethtool[kind.name], want.Ethtool[kind.name]) != nil {
			diff = append(diff, kind.name+" are not what they were")
		}
	}
	return diff
}

// changed returns the attributes that are wanted and that an interface does not have.
func changed(have, want Attributes) (m []byte) {
	h, _ := netlink.Parse(have)
	w, _ := netlink.Parse(want)
	for a := range w.All() {
		if v, has := h.Find(a.Type()); !has || !bytes.Equal(v, a.Value) {
			m = netlink.Append(m, a.Kind, a.Value)
		}
	}
	return m
}

// lacking returns what of a list is not in another one.
func lacking(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

// get reads the attributes of a kind that can be set. What the driver, or the
// kernel, does not have is nil.
func (c *Conn) get(kind kind, index int) (Attributes, error) {
	list, err := c.ask(kind.get, index)
	if err != nil || list == nil {
		return nil, err
	}
	return kind.settable(list), nil
}

// settable returns the attributes of an answer that a request to set may have.
func (k kind) settable(list netlink.Attributes) Attributes {
	m := Attributes{}
	for a := range list.All() {
		if a.Type() >= k.first {
			m = netlink.Append(m, a.Kind, a.Value)
		}
	}
	return m
}

// ask returns what the kernel says to a request that only reads; nil: nothing.
func (c *Conn) ask(command byte, index int) (netlink.Attributes, error) {
	family, err := c.dial()
	if err != nil || family == 0 {
		return nil, err
	}
	answers, err := c.socket.Do(int(family), 0, family, request(command, index, 0))
	if err == unix.EOPNOTSUPP {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return netlink.Generic(answers)
}

// set sets attributes, and has no answer but for the result.
func (c *Conn) set(command byte, index int, attributes []byte) error {
	family, err := c.dial()
	if err != nil {
		return err
	}
	c.changes++
	m := append(request(command, index, unix.ETHTOOL_FLAG_OMIT_REPLY), attributes...)
	_, err = c.socket.Do(int(family), unix.NLM_F_ACK, family, m)
	return err
}

// request returns the head of a message about an interface.
func request(command byte, index int, flags uint32) []byte {
	head := netlink.AppendUint32(nil, unix.ETHTOOL_A_HEADER_DEV_INDEX, uint32(index))
	head = netlink.AppendUint32(head, unix.ETHTOOL_A_HEADER_FLAGS, flags)
	return netlink.Append([]byte{command, unix.ETHTOOL_GENL_VERSION, 0, 0}, header|unix.NLA_F_NESTED, head)
}

// dial connects, and returns the number under which the kernel takes requests of ethtool, 0 if it
// takes none.
func (c *Conn) dial() (uint16, error) {
	if c.socket != nil {
		return c.family, nil
	}
	s, family, err := netlink.OpenGeneric(unix.ETHTOOL_GENL_NAME)
	if err != nil {
		return 0, err
	}
	c.socket, c.family = s, family
	return family, nil
}

// Features returns the features that an administrator, or the driver by default, asks for.
func (c *Conn) Features(index int) ([]string, error) {
	list, err := c.ask(unix.ETHTOOL_MSG_FEATURES_GET, index)
	if err != nil {
		return nil, err
	}
	return wanted(list)
}

// wanted returns the names of the features that an answer says to be asked for, sorted.
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

// SetFeatures asks for the features that are wanted, and for no other one any more.
func (c *Conn) SetFeatures(index int, want []string) error {
	have, err := c.Features(index)
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
	return c.set(unix.ETHTOOL_MSG_FEATURES_SET, index, netlink.Append(nil, unix.ETHTOOL_A_FEATURES_WANTED|unix.NLA_F_NESTED, set))
}
