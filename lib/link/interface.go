package link

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
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
	answers, err := c.send(unix.RTM_GETLINK, unix.NLM_F_DUMP, unix.RTM_NEWLINK, nl.NewIfInfomsg(unix.AF_UNSPEC).Serialize())
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
	m, err := c.describe(index)
	if err != nil {
		return Interface{}, err
	}
	return decode(m)
}

// describe is an interface as the kernel describes it.
func (c *Conn) describe(index int) ([]byte, error) {
	head := nl.NewIfInfomsg(unix.AF_UNSPEC)
	head.Index = int32(index)
	answers, err := c.send(unix.RTM_GETLINK, 0, unix.RTM_NEWLINK, head.Serialize())
	if err == unix.ENODEV || err == nil && len(answers) == 0 {
		return nil, fmt.Errorf("interface %d: %w", index, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read interface %d: %w", index, err)
	}
	return answers[0], nil
}

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
	l, err := netlink.LinkDeserialize(nil, m)
	if err != nil {
		return Interface{}, fmt.Errorf("parse a network interface: %w", err)
	}
	a := l.Attrs()
	i := Interface{
		ID:      identify(l),
		Index:   a.Index,
		Name:    a.Name,
		MTU:     a.MTU,
		MAC:     a.HardwareAddr.String(),
		Up:      a.RawFlags&unix.IFF_UP != 0,
		Running: a.RawFlags&unix.IFF_LOWER_UP != 0,
	}
	if a.NetNsID < 0 {
		i.Parent = a.ParentIndex
	}
	switch l := l.(type) {
	case *netlink.Vxlan:
		i.Parent = l.VtepDevIndex // it has no IFLA_LINK
	case *netlink.IPoIB:
		i.PKey = l.Pkey
		i.IPoIB = IPoIB{Connected: l.Mode == netlink.IPOIB_MODE_CONNECTED, Umcast: l.Umcast != 0}
	}
	return i, nil
}

func identify(l netlink.Link) ID {
	a := l.Attrs()
	id := ID{Address: a.HardwareAddr.String()}
	if a.ParentDev != "" {
		id.Parent = a.ParentDevBus + "/" + a.ParentDev
	}
	if kind := l.Type(); kind != "device" {
		id.Kind = kind
	}
	switch {
	case id.Kind == "ipoib" && len(a.HardwareAddr) == 20:
		// The first twelve bytes are a queue pair number and a subnet prefix, dealt
		// anew whenever the interface is made anew; the rest is the port's GUID.
		id.Address = net.HardwareAddr(a.HardwareAddr[12:]).String()
		if ipoib, ok := l.(*netlink.IPoIB); ok && a.ParentIndex != 0 {
			id.Parent += fmt.Sprintf("%s%04x", pkeyChild, ipoib.Pkey)
		}
	case len(a.PermHWAddr) > 0:
		id.Address = a.PermHWAddr.String()
	}
	return id
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
