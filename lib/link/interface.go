package link

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Interface is a network interface as the kernel describes it now.
type Interface struct {
	ID       ID
	Index    int
	Name     string
	MTU      int
	MAC      string
	Up       bool // administratively
	Running  bool // has carrier
	Settling bool // has carrier, and the kernel is yet to do what follows from it
	Loopback bool
	IPoIB    IPoIB
	PKey     uint16 // of an IPoIB interface
	Parent   int    // index of the interface of this namespace that it stands on, or 0
	Master   int    // index of the bridge, bond or the like that it belongs to, or 0

	permanent string // MAC, or port GUID of an IPoIB interface; of a VF no part of its identity
}

// Operational states of linux/if.h.
const operDown, operLowerLayerDown = 2, 3

// ID tells an interface from any other of the node, whatever its name, its
// index, its MAC and its namespace are.
type ID struct {
	Kind    string `json:"kind,omitempty"`   // rtnl_link_ops: "ipoib", "veth"; empty for hardware
	Parent  string `json:"parent,omitempty"` // the device below it, pci/0000:3b:00.0
	Address string `json:"address"`          // permanent MAC; of an IPoIB interface the port GUID
}

// A VF whose PF was never told a MAC has a random one, which is not permanent. What counts as a VF's
// permanent MAC may change, too: drivers write there whatever the VF has when it is reset
// (igbvf_reset, ixgbevf_reset), and a job's VF may have an address of its own. So its device alone
// identifies a VF's interface: a job may have changed the MAC, as a bond in the job does. An interface
// that stands on no device has nothing but its MAC.

func (id ID) String() string {
	switch {
	case id.Parent == "":
		return id.Address
	case id.Address == "":
		return id.Parent
	}
	return id.Address + "@" + id.Parent
}

// StandsOn tells whether the device below the interface is a PCI function, as far as it is one:
// an HCA in software has none, and one of several on a function has a device of its own below it.
func (id ID) StandsOn(pci string) bool {
	function, is := strings.CutPrefix(id.Parent, "pci/")
	return !is || pci == "" || function == pci
}

// BoundWith returns the MAC that an interface's driver took when it bound the device, as far as the
// driver says so; else the one that the interface has.
func (i Interface) BoundWith() string { return cmp.Or(i.permanent, i.MAC) }

// IsPort tells the IPoIB interface of the port with a GUID; its children are not it.
func (i Interface) IsPort(guid []byte) bool {
	return i.ID.Kind == "ipoib" && i.permanent == net.HardwareAddr(guid).String() && !i.ID.IsPKeyChild()
}

// pkeyChild marks, with the P_Key, the parent of an IPoIB interface that belongs
// to another one. It has that one's parent device and port.
const pkeyChild = "/pkey"

// IsPKeyChild tells an IPoIB interface that belongs to another one.
func (id ID) IsPKeyChild() bool { return id.Kind == "ipoib" && strings.Contains(id.Parent, pkeyChild) }

// List lists the namespace's interfaces.
func (c *Conn) List() ([]Interface, error) {
	list, err := Remembered(c, "interfaces", func() (list []Interface, err error) {
		again := func() { list = nil }
		err = c.Route.Each(unix.RTM_GETLINK, unix.NLM_F_DUMP, unix.RTM_NEWLINK, briefly(change(0, false, 0)), again, func(m []byte) error {
			i, err := decode(m)
			list = append(list, i)
			return err
		})
		return list, err
	})
	if err != nil {
		return nil, fmt.Errorf("list network interfaces: %w", err)
	}
	return slices.Clone(list), nil
}

// OfFunction describes the interface of a PCI function that has one, or is ErrNotFound.
func (c *Conn) OfFunction(pci string) (Interface, error) {
	return c.first("of "+pci, func(i Interface) bool { return i.ID.Parent == "pci/"+pci })
}

// Find finds an interface by what identifies it, or is ErrNotFound.
func (c *Conn) Find(id ID) (Interface, error) {
	return c.first(id.String(), func(i Interface) bool { return i.ID == id })
}

// Named returns the interface of a name, or is ErrNotFound.
func (c *Conn) Named(name string) (Interface, error) {
	return c.first(name, func(i Interface) bool { return i.Name == name })
}

// first returns the first interface of the namespace that is the one that what says.
func (c *Conn) first(what string, is func(Interface) bool) (Interface, error) {
	list, err := c.List()
	if err != nil {
		return Interface{}, err
	}
	i := slices.IndexFunc(list, is)
	if i < 0 {
		return Interface{}, fmt.Errorf("interface %s: %w", what, ErrNotFound)
	}
	return list[i], nil
}

// Get describes the interface with an index, or is ErrNotFound.
func (c *Conn) Get(index int) (Interface, error) {
	m, err := c.ask(index, briefly(change(index, false, 0)))
	if err != nil {
		return Interface{}, err
	}
	return decode(m)
}

// Listed describes an interface as Get does, within Once by the list of all.
func (c *Conn) Listed(index int) (Interface, error) {
	if !c.Remembers() {
		return c.Get(index)
	}
	list, err := c.List()
	if err != nil {
		return Interface{}, err
	}
	for _, i := range list {
		if i.Index == index {
			return i, nil
		}
	}
	return Interface{}, fmt.Errorf("interface %d: %w", index, ErrNotFound)
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
	return netlink.AppendUint32(request, unix.IFLA_EXT_MASK, rtextFilterSkipStats)
}

// rtextFilterSkipStats is RTEXT_FILTER_SKIP_STATS of linux/rtnetlink.h.
const rtextFilterSkipStats = 1 << 3

func decode(m []byte) (Interface, error) {
	list, err := netlink.Behind(m, unix.SizeofIfInfomsg, "network interface")
	if err != nil {
		return Interface{}, err
	}
	// One way through the list: a node may have thousands of interfaces.
	var name, mac, permanent, bus, device, info []byte
	var mtu, master, link, state int
	elsewhere := false
	for a := range list.All() {
		switch a.Type() {
		case unix.IFLA_IFNAME:
			name = a.Value
		case unix.IFLA_ADDRESS:
			mac = a.Value
		case unix.IFLA_PERM_ADDRESS:
			permanent = a.Value
		case unix.IFLA_PARENT_DEV_BUS_NAME:
			bus = a.Value
		case unix.IFLA_PARENT_DEV_NAME:
			device = a.Value
		case unix.IFLA_LINKINFO:
			info = a.Value
		case unix.IFLA_MTU:
			mtu = int(netlink.Number(a.Value))
		case unix.IFLA_MASTER:
			master = int(netlink.Number(a.Value))
		case unix.IFLA_OPERSTATE:
			state = int(netlink.Number(a.Value))
		case unix.IFLA_LINK:
			link = int(netlink.Number(a.Value))
		case unix.IFLA_LINK_NETNSID:
			elsewhere = true
		}
	}
	kind, data, err := linkInfo(info)
	if err != nil {
		return Interface{}, err
	}
	flags := native.Uint32(m[8:]) // ifi_flags
	i := Interface{
		ID:       ID{Kind: kind},
		Index:    int(int32(native.Uint32(m[4:]))), // ifi_index
		Name:     unix.ByteSliceToString(name),
		MTU:      mtu,
		MAC:      hardware(mac),
		Up:       flags&unix.IFF_UP != 0,
		Running:  flags&unix.IFF_LOWER_UP != 0,
		Loopback: flags&unix.IFF_LOOPBACK != 0,
		Master:   master,
	}
	// The carrier shows at once. Its operational state, and with it IPv6's link local address, come later
	// (link_watch.c:linkwatch_do_dev).
	i.Settling = i.Running && (state == operDown || state == operLowerLayerDown)
	if !elsewhere {
		i.Parent = link
	}
	if name := unix.ByteSliceToString(device); name != "" {
		i.ID.Parent = unix.ByteSliceToString(bus) + "/" + name
	}
	i.permanent = hardware(permanent)
	vf := isVF(i.ID.Parent)
	switch {
	case i.ID.Parent == "" && i.permanent == "":
		i.ID.Address = i.MAC
	case !vf:
		i.ID.Address = i.permanent
	}
	switch kind {
	case "vxlan":
		i.Parent = int(data.Number(vxlanLink)) // it has no IFLA_LINK
	case "ipoib":
		i.decodeIPoIB(data, mac, link, vf)
	}
	return i, nil
}

// pciDevices is the folder of sysfs that has them, whichever network namespace it shows.
var pciDevices = "/sys/bus/pci/devices"

// isVF tells whether the device below an interface is a VF that has no other interface. Those of mlx4
// have one for each port (mlx4_en, main.c:mlx4_en_activate), which only their MACs tell apart.
func isVF(parent string) bool {
	function, is := strings.CutPrefix(parent, "pci/")
	if !is {
		return false
	}
	_, err := os.Lstat(filepath.Join(pciDevices, function, "physfn"))
	driver, _ := os.Readlink(filepath.Join(pciDevices, function, "driver"))
	return err == nil && filepath.Base(driver) != "mlx4_core"
}

// decodeIPoIB completes an IPoIB interface. link is its parent's index, if it has one.
func (i *Interface) decodeIPoIB(data netlink.Attributes, mac []byte, link int, vf bool) {
	i.PKey = uint16(int(data.Number(ipoibPKey)))
	i.IPoIB = IPoIB{Connected: int(data.Number(ipoibMode)) != 0, Umcast: int(data.Number(ipoibUmcast)) != 0}
	if len(mac) != 20 {
		return
	}
	// The first twelve bytes are a queue pair number and a subnet prefix, dealt
	// again whenever the interface is made again; the rest is the port's GUID.
	if i.permanent = net.HardwareAddr(mac[12:]).String(); !vf {
		i.ID.Address = i.permanent
	}
	if link != 0 {
		i.ID.Parent += fmt.Sprintf("%s%04x", pkeyChild, i.PKey)
	}
}

// vxlanLink is IFLA_VXLAN_LINK of linux/if_link.h.
const vxlanLink = 3

// linkInfo returns an interface's rtnl_link_ops, empty for hardware, and what these tell of it.
func linkInfo(nested []byte) (kind string, data netlink.Attributes, err error) {
	info, err := netlink.Parse(nested)
	if err != nil {
		return "", nil, err
	}
	for a := range info.All() {
		switch a.Type() {
		case unix.IFLA_INFO_KIND:
			kind = unix.ByteSliceToString(a.Value)
		case unix.IFLA_INFO_DATA:
			data = netlink.Attributes(a.Value)
		}
	}
	data, err = netlink.Parse(data)
	return kind, data, err
}

// hardware prints a hardware address, nothing for one of zeros only (lo has such).
func hardware(v []byte) string {
	if bytes.Count(v, []byte{0}) == len(v) {
		return ""
	}
	return net.HardwareAddr(v).String()
}

// Move takes an interface to the namespace behind a file descriptor, gives it
// its name there and brings it up or leaves it down: one message, since each
// costs the node's RTNL lock. The kernel moves first and does the rest there.
// If another has the name there it is ErrNameTaken, and the interface may have
// moved nevertheless.
func (c *Conn) Move(index, nsfd int, name string, up bool) error {
	return c.move(index, nsfd, name, up, 0)
}

// Return is Move for an interface that comes back, and stays down. It has its old index again,
// which others name it by, though the job had that for something else: kernels before 5.13
// know no such wish. Where another has the index meanwhile, or that is 0, the kernel chooses.
func (c *Conn) Return(index, nsfd int, name string, old int) error {
	err := c.move(index, nsfd, name, false, old)
	if old != 0 && errors.Is(err, unix.EBUSY) { // dev.c:__dev_change_net_namespace, before anything is changed
		err = c.move(index, nsfd, name, false, 0)
	}
	return err
}

func (c *Conn) move(index, nsfd int, name string, up bool, as int) error {
	m := change(index, up, unix.IFF_UP)
	m = netlink.AppendUint32(m, unix.IFLA_NET_NS_FD, uint32(nsfd))
	if as != 0 {
		m = netlink.AppendUint32(m, unix.IFLA_NEW_IFINDEX, uint32(as))
	}
	m = netlink.AppendText(m, unix.IFLA_IFNAME, name)
	return named(c.setLink(m))
}

// LongestName is how many letters the name of an interface has at most (IFNAMSIZ).
const LongestName = 15

// FreeName stands for a name that nobody has, which the kernel chooses (dev.c:dev_alloc_name).
const FreeName = freePrefix + "%d"

const freePrefix = "gresnet"

// Park gives an interface a name that is nobody's, until it is given its own.
func (c *Conn) Park(i Interface) error {
	if strings.HasPrefix(i.Name, freePrefix) {
		return nil
	}
	if err := c.down(i.Index); err != nil {
		return fmt.Errorf("bring %s down to rename it: %w", i.Name, err)
	}
	m := netlink.AppendText(change(i.Index, false, 0), unix.IFLA_IFNAME, FreeName)
	if err := c.setLink(m); err != nil {
		return fmt.Errorf("rename %s out of the way: %w", i.Name, err)
	}
	return nil
}

// Up brings an interface up.
func (c *Conn) Up(index int) error { return c.set(index, true) }

// down takes an interface down.
func (c *Conn) down(index int) error { return c.set(index, false) }

func (c *Conn) set(index int, up bool) error {
	return c.setLink(change(index, up, unix.IFF_UP))
}

// setLink sends a message that changes an interface.
func (c *Conn) setLink(m []byte) error {
	_, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_ACK, 0, m)
	return err
}

// change returns the head of a message that sets flags of an interface.
func change(index int, on bool, flag uint32) []byte {
	if on {
		return setFlags(index, flag, flag)
	}
	return setFlags(index, 0, flag)
}

// setFlags returns the head, struct ifinfomsg, of a message that gives an interface those flags
// that are to be changed.
func setFlags(index int, flags, change uint32) []byte {
	m := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(m[4:], uint32(index))
	native.PutUint32(m[8:], flags)
	native.PutUint32(m[12:], change)
	return m
}

// IsIPoIB tells a hardware address of InfiniBand's length. The kernel
// makes the varying part and lets nobody set the rest.
func IsIPoIB(mac string) bool {
	return len(mac) == len("00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00:00")
}

func parseMAC(mac string) ([]byte, error) {
	hw, err := net.ParseMAC(mac)
	if err != nil {
		return nil, fmt.Errorf("parse a hardware address: %w", err)
	}
	return hw, nil
}

// Children returns the interfaces of the namespace that stand on the one with an
// index. A veth's peer is called its parent, too, but is none.
func (c *Conn) Children(index int) ([]Interface, error) {
	list, err := c.List()
	return slices.DeleteFunc(list, func(i Interface) bool { return i.Parent != index || i.ID.Kind == "veth" }), err
}

// DownChildren takes down what stands on the interface with an index, which is
// to be moved. A move forgets the hardware addresses that the interface takes
// packets for on their behalf (dev.c:__dev_change_net_namespace, dev_uc_flush),
// which they give it when they come up, and believe to be there until they go down.
func (c *Conn) DownChildren(index int) error {
	list, err := c.Children(index)
	if err != nil {
		return err
	}
	for _, i := range list {
		if err := c.DownChildren(i.Index); err != nil {
			return err
		}
		if err := c.down(i.Index); err != nil {
			return fmt.Errorf("bring down %s: %w", i.Name, err)
		}
	}
	return nil
}

// MakePKeyChild makes an IPoIB interface for a partition, under a name that
// nobody has until it is given its own. Without numbers of queues the kernel chooses them.
func (c *Conn) MakePKeyChild(parent int, pkey uint16, txQueues, rxQueues int) error {
	data := netlink.Append(nil, ipoibPKey, native.AppendUint16(nil, pkey))
	info := netlink.Append(nil, unix.IFLA_INFO_KIND, []byte("ipoib"))
	info = netlink.Append(info, unix.IFLA_INFO_DATA|unix.NLA_F_NESTED, data)
	m := netlink.AppendUint32(change(0, false, 0), unix.IFLA_LINK, uint32(parent))
	m = netlink.AppendText(m, unix.IFLA_IFNAME, FreeName)
	if txQueues > 0 && rxQueues > 0 {
		// By itself the kernel makes it one queue, or as many as there are processors
		// (rtnetlink.c:rtnl_create_link), and mlx5 no child with fewer than its parent has.
		m = netlink.AppendUint32(m, unix.IFLA_NUM_TX_QUEUES, uint32(txQueues))
		m = netlink.AppendUint32(m, unix.IFLA_NUM_RX_QUEUES, uint32(rxQueues))
	}
	m = netlink.Append(m, unix.IFLA_LINKINFO|unix.NLA_F_NESTED, info)
	_, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, 0, m)
	return err
}
