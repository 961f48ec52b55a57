package link

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"gresnet/lib/hint"
)

// Uplink is an interface that is made for a job in the job's namespace, where it
// never was anybody else's. All of its identity is chosen before it is made, so
// that it can be noted before, and holds whatever name the job gives it.
type Uplink struct {
	Kind  string // macvlan, ipvlan or veth
	Name  string // in the job, when it is made
	Index int    // in the job, where no other interface can have so high a one
	MAC   []byte // in the job; an ipvlan has its parent's

	former int // the index in a job that a program made which did not keep 16 bits apart

	// Of veth: the end that stays on the node. With it goes the other, wherever it is.
	Host    string
	HostMAC []byte
}

// UplinkBit is the bit of an index that uplinks have, and no other interface: the kernel counts up
// from 1, and does not come to it.
const UplinkBit = 1 << 30

// IsUplink tells the node's end of an uplink from an interface of the node's own.
func (i Interface) IsUplink() bool { return i.ID.Kind == "veth" && i.Index&UplinkBit != 0 }

// UplinkOf is the uplink with an address, of which all that identifies it is made:
// no two uplinks of a node, nor two on one network, have the same address at once.
func UplinkOf(kind, host string, address netip.Addr) Uplink {
	a := address.As4()
	// Locally administered, and none of the ranges that hypervisors and container runtimes use.
	mac := func(first byte) []byte { return append([]byte{first, 0x67}, a[:]...) }
	id := int(a[1]&0x3f)<<16 | int(a[2])<<8 | int(a[3])
	u := Uplink{Kind: kind, Index: uplinkIndex(id), MAC: mac(0x06), former: UplinkBit | id}
	switch kind {
	case "ipvlan":
		u.MAC = nil
	case "veth":
		u.Host, u.HostMAC = host, mac(0x0a)
	}
	return u
}

// uplinkIndex is the index for an id of 22 bits. Open MPI keeps 16 bits of an index
// (opal/mca/if/if.h:opal_if_t), and takes interfaces that have these in common for one. Of these, bit 14
// is always set, which the kernel's small ones do not have, and bit 15 never is, which overlays have.
// Bit 24 tells it from a former one.
func uplinkIndex(id int) int {
	const low = 1<<14 - 1
	return UplinkBit | 1<<24 | id&^low<<2 | 1<<14 | id&low
}

// Named is the interface of a name, or is ErrNotFound.
func (c *Conn) Named(name string) (Interface, error) {
	list, err := c.List()
	if err != nil {
		return Interface{}, err
	}
	for _, i := range list {
		if i.Name == name {
			return i, nil
		}
	}
	return Interface{}, fmt.Errorf("interface %s: %w", name, ErrNotFound)
}

// Networks are the IPv4 addresses of the namespace by interface, with the length
// of the network that each is in.
func (c *Conn) Networks() (map[int][]netip.Prefix, error) {
	request := make([]byte, addrHead)
	request[0] = unix.AF_INET
	answers, err := c.send(unix.RTM_GETADDR, unix.NLM_F_DUMP, unix.RTM_NEWADDR, request)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	all := map[int][]netip.Prefix{}
	for _, m := range answers {
		if len(m) < addrHead {
			return nil, fmt.Errorf("address message of %d bytes", len(m))
		}
		index := int(native.Uint32(m[4:]))
		all[index] = append(all[index], Message(m).Addr())
	}
	return all, nil
}

// MakeUplink makes an uplink in the namespace behind a file descriptor. One
// message makes all of it: what is there is whole, and was never here.
func (c *Conn) MakeUplink(u Uplink, parent, nsfd int) error {
	m := u.job(nsfd)
	if u.Kind == "veth" {
		m = u.pair(m)
	} else {
		m = attribute(m, unix.IFLA_LINK, native.AppendUint32(nil, uint32(parent)))
		m = attribute(m, unix.IFLA_LINKINFO|unix.NLA_F_NESTED, u.info(u.mode()))
	}
	_, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK, 0, m)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("make the uplink: the kernel has no %s", u.Kind)
	}
	err = named(err)
	if errors.Is(err, unix.EBUSY) {
		return hint.With(fmt.Errorf("make the uplink: %w", err), "its parent may be a port of a bridge or a bond, or carry interfaces of another kind")
	}
	if err != nil {
		return fmt.Errorf("make the uplink: %w", err)
	}
	return nil
}

// job is the interface in the job.
func (u Uplink) job(nsfd int) []byte {
	m := change(u.Index, false, 0)
	m = attribute(m, unix.IFLA_IFNAME, nl.ZeroTerminated(u.Name))
	if u.MAC != nil {
		m = attribute(m, unix.IFLA_ADDRESS, u.MAC)
	}
	return attribute(m, unix.IFLA_NET_NS_FD, native.AppendUint32(nil, uint32(nsfd)))
}

func (u Uplink) info(data []byte) []byte {
	info := attribute(nil, unix.IFLA_INFO_KIND, []byte(u.Kind))
	return attribute(info, unix.IFLA_INFO_DATA|unix.NLA_F_NESTED, data)
}

// mode lets jobs of one node reach each other, as those of different nodes do.
func (u Uplink) mode() []byte {
	if u.Kind == "macvlan" {
		return attribute(nil, nl.IFLA_MACVLAN_MODE, native.AppendUint32(nil, nl.MACVLAN_MODE_BRIDGE))
	}
	const l2 = 0 // linux/if_link.h, IPVLAN_MODE_L2
	return attribute(nil, nl.IFLA_IPVLAN_MODE, native.AppendUint16(nil, l2))
}

// pair is the node's end of a veth, whose other one is the job's.
func (u Uplink) pair(job []byte) []byte {
	m := change(u.Index, false, 0)
	m = attribute(m, unix.IFLA_IFNAME, nl.ZeroTerminated(u.Host))
	m = attribute(m, unix.IFLA_ADDRESS, u.HostMAC)
	const peer = 1 // linux/veth.h, VETH_INFO_PEER
	return attribute(m, unix.IFLA_LINKINFO|unix.NLA_F_NESTED, u.info(attribute(nil, peer, job)))
}

// FindUplink finds an uplink, or the node's end of it, or is ErrNotFound. The job
// may have given it another name and another MAC, though not another index.
func (c *Conn) FindUplink(u Uplink) (Interface, error) {
	i, err := c.ofKind(u.Index, u.Kind)
	if errors.Is(err, ErrNotFound) {
		return c.ofKind(u.former, u.Kind)
	}
	return i, err
}

// ofKind is the interface with an index, if it is of a kind.
func (c *Conn) ofKind(index int, kind string) (Interface, error) {
	i, err := c.Get(index)
	if err == nil && i.ID.Kind != kind {
		err = fmt.Errorf("interface %d: %w", index, ErrNotFound)
	}
	return i, err
}

// DeleteUplink deletes an uplink; one that is not there is success.
func (c *Conn) DeleteUplink(u Uplink) error {
	i, err := c.FindUplink(u)
	if err != nil {
		return err
	}
	_, err = c.send(unix.RTM_DELLINK, unix.NLM_F_ACK, 0, change(i.Index, false, 0))
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete %s: %w", i.Name, err)
	}
	return nil
}

// Give gives an interface that was made by MakeUplink an address with a peer,
// which may be the address itself, and brings it up.
func (c *Conn) Give(index int, address netip.Prefix, peer netip.Addr) error {
	if err := c.address(index, address, peer); err != nil {
		return err
	}
	return c.Open(index)
}

// GiveLoopback gives the namespace an address that no interface of its has that leads elsewhere.
func (c *Conn) GiveLoopback(a netip.Addr) error {
	lo, err := c.Named("lo")
	if err != nil {
		return err
	}
	return c.address(lo.Index, netip.PrefixFrom(a, 32), a)
}

func (c *Conn) address(index int, address netip.Prefix, peer netip.Addr) error {
	m := []byte{unix.AF_INET, byte(address.Bits()), 0, 0, 0, 0, 0, 0}
	native.PutUint32(m[4:], uint32(index))
	m = attribute(m, unix.IFA_LOCAL, address.Addr().AsSlice())
	m = attribute(m, unix.IFA_ADDRESS, peer.AsSlice())
	if _, err := c.send(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK, 0, m); err != nil {
		return fmt.Errorf("give interface %d the address %s: %w", index, address, err)
	}
	return nil
}

// Open brings up an interface that was made by MakeUplink. It gets no IPv6: a router on the
// network would give it addresses and routes that nobody asked for.
func (c *Conn) Open(index int) error {
	i, err := c.Get(index)
	if err != nil {
		return err
	}
	off := filepath.Join("/proc/sys/net/ipv6/conf", i.Name, "disable_ipv6")
	if err := os.WriteFile(off, []byte("1"), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("switch IPv6 off on %s: %w", i.Name, err)
	}
	if err := c.Up(index); err != nil {
		return fmt.Errorf("bring up %s: %w", i.Name, err)
	}
	return nil
}

// SetMTU sets the MTU of an interface that was made by MakeUplink.
func (c *Conn) SetMTU(index, mtu int) error {
	m := attribute(change(index, false, 0), unix.IFLA_MTU, native.AppendUint32(nil, uint32(mtu)))
	if _, err := c.send(unix.RTM_NEWLINK, unix.NLM_F_ACK, 0, m); err != nil {
		return fmt.Errorf("set the MTU of interface %d to %d: %w", index, mtu, err)
	}
	return nil
}

// Confine has a filter look at what arrives by the node's end of an uplink. With the
// interface goes the filter, and the program with the filter.
func Confine(u Uplink, program *os.File) error {
	attributes := netlink.QdiscAttrs{LinkIndex: u.Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
	err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: attributes})
	if err == nil {
		err = netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: u.Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL,
			},
			Fd: int(program.Fd()), Name: "gresnet", DirectAction: true,
		})
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return hint.With(fmt.Errorf("filter what comes by %s: %w", u.Host, err), "the kernel must have CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF")
	}
	if err != nil {
		return fmt.Errorf("filter what comes by %s: %w", u.Host, err)
	}
	return nil
}

// Route sends what goes to a network to a gateway behind an interface, if there is no
// other way of a lower metric.
func (c *Conn) Route(index int, to netip.Prefix, gateway netip.Addr, metric int) error {
	return c.RouteFrom(index, to, gateway, netip.Addr{}, metric)
}

// RouteFrom does so under an address of the namespace's. Without a gateway, the network is
// behind the interface itself.
func (c *Conn) RouteFrom(index int, to netip.Prefix, gateway, from netip.Addr, metric int) error {
	m := make([]byte, routeHead)
	m[0], m[1], m[4] = unix.AF_INET, byte(to.Bits()), unix.RT_TABLE_MAIN
	m[5], m[6], m[7] = unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST
	if to.Bits() > 0 {
		m = attribute(m, unix.RTA_DST, to.Addr().AsSlice())
	}
	if gateway.IsValid() {
		m = attribute(m, unix.RTA_GATEWAY, gateway.AsSlice())
	} else {
		m[6] = unix.RT_SCOPE_LINK
	}
	if from.IsValid() {
		m = attribute(m, unix.RTA_PREFSRC, from.AsSlice())
	}
	m = attribute(m, unix.RTA_OIF, native.AppendUint32(nil, uint32(index)))
	m = attribute(m, unix.RTA_PRIORITY, native.AppendUint32(nil, uint32(metric)))
	if _, err := c.send(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_ACK, 0, m); err != nil {
		return fmt.Errorf("route %s by interface %d: %w", to, index, err)
	}
	return nil
}
