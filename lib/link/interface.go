package link

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Interface is a network interface as the kernel describes it now.
type Interface struct {
	ID      ID
	Index   int
	Name    string
	MTU     int
	MAC     string
	Up      bool // administratively
	Running bool // has carrier
	IPoIB   IPoIB
	PKey    uint16 // of an IPoIB interface
	Parent  int    // index of the interface of this namespace that it stands on, or 0
	Master  int    // index of the bridge, bond or the like that it belongs to, or 0
}

// ID tells an interface from any other of the node, whatever its name, its
// index and its namespace are.
type ID struct {
	Kind    string `json:"kind,omitempty"`   // rtnl_link_ops: "ipoib", "veth"; empty for hardware
	Parent  string `json:"parent,omitempty"` // the device below it, pci/0000:3b:00.0
	Address string `json:"address"`          // permanent MAC; of an IPoIB interface the port GUID
}

func (id ID) String() string {
	if id.Parent == "" {
		return id.Address
	}
	return id.Address + "@" + id.Parent
}

// IsPort tells the IPoIB interface of the port with a GUID; its children are not it.
func (id ID) IsPort(guid []byte) bool {
	return id.Kind == "ipoib" && id.Address == net.HardwareAddr(guid).String() && !id.isPKeyChild()
}

// pkeyChild marks, with the P_Key, the parent of an IPoIB interface that belongs
// to another one, of which it has the parent device and the port.
const pkeyChild = "/pkey"

func (id ID) isPKeyChild() bool { return id.Kind == "ipoib" && strings.Contains(id.Parent, pkeyChild) }

// List lists the namespace's interfaces.
func (c *Conn) List() ([]Interface, error) {
	if c.known != nil && c.known.interfaces != nil {
		return slices.Clone(c.known.interfaces), nil
	}
	answers, err := c.send(unix.RTM_GETLINK, unix.NLM_F_DUMP, unix.RTM_NEWLINK, briefly(change(0, false, 0)))
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	list := make([]Interface, 0, len(answers))
	for _, m := range answers {
		i, err := decode(m)
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	if c.known != nil {
		c.known.interfaces = slices.Clone(list)
	}
	return list, nil
}

// Get describes the interface with an index, or is ErrNotFound.
func (c *Conn) Get(index int) (Interface, error) {
	m, err := c.ask(index, briefly(change(index, false, 0)))
	if err != nil {
		return Interface{}, err
	}
	return decode(m)
}

func (c *Conn) ask(index int, request []byte) ([]byte, error) {
	answers, err := c.send(unix.RTM_GETLINK, 0, unix.RTM_NEWLINK, request)
	if err == unix.ENODEV || err == nil && len(answers) == 0 {
		return nil, fmt.Errorf("interface %d: %w", index, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read interface %d: %w", index, err)
	}
	return answers[0], nil
}

// briefly asks for an interface without its counters, which the kernel would gather from
// all processors; the IPv6 token is left out with them (addrconf.c:inet6_fill_ifla6_attrs).
func briefly(request []byte) []byte {
	return attribute(request, unix.IFLA_EXT_MASK, native.AppendUint32(nil, rtextFilterSkipStats))
}

// rtextFilterSkipStats is RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h.
const rtextFilterSkipStats = 1 << 3

// Find finds an interface by what identifies it, or is ErrNotFound.
func (c *Conn) Find(id ID) (Interface, error) {
	list, err := c.List()
	if err != nil {
		return Interface{}, err
	}
	for _, i := range list {
		if i.ID == id {
			return i, nil
		}
	}
	return Interface{}, fmt.Errorf("interface %s: %w", id, ErrNotFound)
}

func decode(m []byte) (Interface, error) {
	if len(m) < unix.SizeofIfInfomsg {
		return Interface{}, fmt.Errorf("parse a network interface: %d bytes", len(m))
	}
	list, err := attributes(m[unix.SizeofIfInfomsg:])
	if err != nil {
		return Interface{}, err
	}
	kind, data, err := linkInfo(list)
	if err != nil {
		return Interface{}, err
	}
	flags := native.Uint32(m[8:]) // ifi_flags
	i := Interface{
		Index:   int(int32(native.Uint32(m[4:]))), // ifi_index
		Name:    text(list, unix.IFLA_IFNAME),
		MTU:     number(list, unix.IFLA_MTU),
		MAC:     hardware(list, unix.IFLA_ADDRESS).String(),
		Up:      flags&unix.IFF_UP != 0,
		Running: flags&unix.IFF_LOWER_UP != 0,
		Master:  number(list, unix.IFLA_MASTER),
	}
	parent := number(list, unix.IFLA_LINK)
	if _, elsewhere := find(list, unix.IFLA_LINK_NETNSID); !elsewhere {
		i.Parent = parent
	}
	switch kind {
	case "vxlan":
		i.Parent = number(data, vxlanLink) // it has no IFLA_LINK
	case "ipoib":
		i.PKey = uint16(number(data, ipoibPKey))
		i.IPoIB = IPoIB{Connected: number(data, ipoibMode) != 0, Umcast: number(data, ipoibUmcast) != 0}
	}
	i.ID = identify(list, kind, i.PKey, parent)
	return i, nil
}

// vxlanLink is IFLA_VXLAN_LINK of linux/if_link.h.
const vxlanLink = 3

func identify(list attrs, kind string, pkey uint16, parent int) ID {
	mac := hardware(list, unix.IFLA_ADDRESS)
	id := ID{Kind: kind, Address: mac.String()}
	if device := text(list, unix.IFLA_PARENT_DEV_NAME); device != "" {
		id.Parent = text(list, unix.IFLA_PARENT_DEV_BUS_NAME) + "/" + device
	}
	permanent := hardware(list, unix.IFLA_PERM_ADDRESS)
	switch {
	case kind == "ipoib" && len(mac) == 20:
		// The first twelve bytes are a queue pair number and a subnet prefix, dealt
		// anew whenever the interface is made anew; the rest is the port's GUID.
		id.Address = mac[12:].String()
		if parent != 0 {
			id.Parent += fmt.Sprintf("%s%04x", pkeyChild, pkey)
		}
	case len(permanent) > 0:
		id.Address = permanent.String()
	}
	return id
}

// linkInfo is an interface's rtnl_link_ops, empty for hardware, and what these tell of it.
func linkInfo(list attrs) (kind string, data attrs, err error) {
	nested, _ := find(list, unix.IFLA_LINKINFO)
	info, err := attributes(nested)
	if err != nil {
		return "", nil, err
	}
	nested, _ = find(info, unix.IFLA_INFO_DATA)
	data, err = attributes(nested)
	return text(info, unix.IFLA_INFO_KIND), data, err
}

// text is what an attribute says up to its terminating zero, empty if it is not there.
func text(list attrs, kind uint16) string {
	v, _ := find(list, kind)
	return unix.ByteSliceToString(v)
}

// number is an attribute of 16 or 32 bits, 0 if it is not there.
func number(list attrs, kind uint16) int {
	switch v, _ := find(list, kind); len(v) {
	case 2:
		return int(native.Uint16(v))
	case 4:
		return int(native.Uint32(v))
	}
	return 0
}

// hardware is a hardware address, nil for one of zeros only (lo has such).
func hardware(list attrs, kind uint16) net.HardwareAddr {
	v, _ := find(list, kind)
	if bytes.Count(v, []byte{0}) == len(v) {
		return nil
	}
	return v
}

// Move takes an interface to the namespace behind a file descriptor, gives it
// its name there and brings it up or leaves it down: one message, since each
// costs the node's RTNL lock. The kernel moves first and does the rest there.
// If another has the name there it is ErrNameTaken, and the interface may have
// moved nevertheless.
func (c *Conn) Move(index, nsfd int, name string, up bool) error {
	m := change(index, up, unix.IFF_UP)
	m = attribute(m, unix.IFLA_NET_NS_FD, native.AppendUint32(nil, uint32(nsfd)))
	m = attribute(m, unix.IFLA_IFNAME, nl.ZeroTerminated(name))
	delete(c.parameters, index) // if it comes back, with others
	_, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_ACK, 0, m)
	return named(err)
}

// FreeName stands for a name that nobody has, which the kernel chooses (dev.c:dev_alloc_name).
const FreeName = freePrefix + "%d"

const freePrefix = "gresnet"

// Park gives an interface a name that is nobody's, until it is given its own.
func (c *Conn) Park(i Interface) error {
	if strings.HasPrefix(i.Name, freePrefix) {
		return nil
	}
	if err := c.Down(i.Index); err != nil {
		return fmt.Errorf("bring %s down to rename it: %w", i.Name, err)
	}
	m := attribute(change(i.Index, false, 0), unix.IFLA_IFNAME, nl.ZeroTerminated(FreeName))
	if _, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_ACK, 0, m); err != nil {
		return fmt.Errorf("rename %s out of the way: %w", i.Name, err)
	}
	return nil
}

// Up brings an interface up.
func (c *Conn) Up(index int) error { return c.set(index, true) }

// Down takes an interface down.
func (c *Conn) Down(index int) error { return c.set(index, false) }

func (c *Conn) set(index int, up bool) error {
	_, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_ACK, 0, change(index, up, unix.IFF_UP))
	return err
}

// change is the head of a message that sets flags of an interface.
func change(index int, on bool, flag uint32) []byte {
	head := nl.NewIfInfomsg(unix.AF_UNSPEC)
	head.Index = int32(index)
	head.Change = flag
	if on {
		head.Flags = flag
	}
	return head.Serialize()
}

// isIPoIB tells a hardware address of InfiniBand's length, of which the kernel
// makes the varying part and lets nobody set the rest.
func isIPoIB(mac string) bool {
	return len(mac) == len("00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00")
}

func parseMAC(mac string) ([]byte, error) {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		return nil, fmt.Errorf("parse a hardware address: %w", err)
	}
	return hw, nil
}
