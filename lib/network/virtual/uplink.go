package virtual

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// Uplink is an interface that gresnet makes in a job's namespace. gresnet chooses its identity
// before it makes the interface, so that the journal can have it, and the job cannot change it.
type Uplink struct {
	Kind  string           // Veth or Macvlan
	Name  string           // in the job, when it is made
	Index int              // of a macvlan in the job, of a veth's end on the node: no other interface can have so high a one
	Place int              // its index in the job
	MAC   net.HardwareAddr // in the job

	// Host is the end of a veth on the node. When it is deleted, so is the job's end.
	Host    string
	HostMAC net.HardwareAddr
}

// The kinds of uplinks, as the kernel calls them.
const (
	Veth    = "veth"
	Macvlan = "macvlan"
)

// UplinkBit is set in the index of uplinks and overlays, and of no other interface: the kernel
// counts up from 1 and never comes so far.
const UplinkBit = 1 << 30

// UplinkOf returns the uplink with an address. The address determines its index and MAC: no two
// uplinks of a node or of a network have the same address at once.
func UplinkOf(kind, host string, address netip.Addr) Uplink {
	a := address.As4()
	// Locally administered, and none of the ranges that hypervisors and container runtimes use.
	mac := func(first byte) net.HardwareAddr { return append(net.HardwareAddr{first, 0x67}, a[:]...) }
	id := int(a[1]&0x3f)<<16 | int(a[2])<<8 | int(a[3])
	u := Uplink{Kind: kind, Index: uplinkIndex(id), MAC: mac(0x06)}
	u.Place = u.Index
	if kind == Veth {
		u.Host, u.HostMAC, u.Place = host, mac(0x0a), lastPlace
	}
	return u
}

// uplinkIndex returns the index for an id of 22 bits. Open MPI keeps 16 bits of an index
// (opal/mca/if/if.h:opal_if_t), and takes two interfaces with the same 16 bits for one. So bit 14
// is set, unlike in the kernel's small indices, and bit 15 is not, unlike in overlays' indices.
func uplinkIndex(id int) int {
	const low = 1<<14 - 1
	return UplinkBit | 1<<24 | id&^low<<2 | 1<<14 | id&low
}

// lastPlace is a veth's index in the job. Linux 6.1 lists interfaces by the last eight bits of their
// index: programs that take the first one beside lo must find the job's interface with the node's address.
const lastPlace = UplinkBit | 1<<24 | 1<<14 | 0xff

// MakeUplink makes an uplink in the namespace behind a file descriptor. One message makes all of
// it, so there is never half of one, and it never is in the calling thread's namespace.
func MakeUplink(u Uplink, parent, nsfd int) error {
	err := refused(u.add(parent, nsfd), u.Kind)
	if err != nil {
		err = fmt.Errorf("make the uplink: %w", err)
	}
	if errors.Is(err, unix.EBUSY) {
		return hint.With(err, "GN279 its parent may be a port of a bridge or a bond, or carry interfaces of another kind")
	}
	return err
}

// add makes the interfaces. A macvlan's mode lets jobs of one node reach each other, as jobs of
// different nodes do.
func (u Uplink) add(parent, nsfd int) error {
	if u.Kind == Veth {
		return u.addPair(nsfd)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Index, attrs.HardwareAddr = u.Name, u.Index, u.MAC
	attrs.ParentIndex, attrs.Namespace = parent, netlink.NsFd(nsfd)
	return netlink.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE})
}

// addPair makes a veth. It builds the message itself because netlink.Veth cannot give the job's end
// an index.
func (u Uplink) addPair(nsfd int) error {
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(u.Kind))
	job := info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.VETH_INFO_PEER, nil)
	nl.NewIfInfomsgChild(job, unix.AF_UNSPEC).Index = int32(u.Place)
	job.AddRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(u.Name))
	job.AddRtAttr(unix.IFLA_ADDRESS, u.MAC)
	job.AddRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(nsfd)))

	r := nl.NewNetlinkRequest(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
	host := nl.NewIfInfomsg(unix.AF_UNSPEC)
	host.Index = int32(u.Index)
	r.AddData(host)
	r.AddData(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(u.Host)))
	r.AddData(nl.NewRtAttr(unix.IFLA_ADDRESS, u.HostMAC))
	r.AddData(info)
	_, err := r.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// find returns an uplink, or its end on the node, or ErrNotFound. The job may have changed the name
// and the MAC, but cannot change the index.
func (u Uplink) find() (netlink.Link, error) {
	i, err := find(u.Index)
	if err == nil && i.Type() != u.Kind {
		return nil, fmt.Errorf("interface %d: %w", u.Index, ErrNotFound)
	}
	return i, err
}

// DeleteUplink deletes an uplink, or returns ErrNotFound.
func DeleteUplink(u Uplink) error {
	i, err := u.find()
	if err != nil {
		return err
	}
	return remove(i)
}

// Forward has the node pass on what comes by its end of a veth. The sysctl would do the same; but there the kernel does
// not wait for the lock that others hold while they move interfaces: it begins the call again and again until it has it
// (devinet.c:devinet_sysctl_forward).
func Forward(u Uplink) error {
	const inetConf, forwarding = 1, 1 // IFLA_INET_CONF, IPV4_DEVCONF_FORWARDING
	settings := nl.NewRtAttr(unix.IFLA_AF_SPEC, nil)
	settings.AddRtAttr(unix.AF_INET, nil).AddRtAttr(inetConf, nil).AddRtAttr(forwarding, nl.Uint32Attr(1))
	r := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	host := nl.NewIfInfomsg(unix.AF_UNSPEC)
	host.Index = int32(u.Index)
	r.AddData(host)
	r.AddData(settings)
	if _, err := r.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("set whether %s forwards: %w", u.Host, err)
	}
	return nil
}

// Confine attaches a filter to the node's end of an uplink, for packets from the job, in place of one that is there.
// The filter and its program go with the interface.
func Confine(u Uplink, program *os.File) error {
	attributes := netlink.QdiscAttrs{LinkIndex: u.Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
	err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: attributes})
	if err == nil || errors.Is(err, unix.EEXIST) {
		err = netlink.FilterReplace(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: u.Index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL,
			},
			Fd: int(program.Fd()), Name: "gresnet", DirectAction: true,
		})
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) {
		return hint.With(fmt.Errorf("filter what comes by %s: %w", u.Host, err), "GN280 the kernel must have CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF")
	}
	if err != nil {
		return fmt.Errorf("filter what comes by %s: %w", u.Host, err)
	}
	return nil
}
