package nft

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/lib/words/hint"
)

// Of linux/netfilter/nfnetlink_conntrack.h, which x/sys/unix lacks.
const (
	connection = unix.NFNL_SUBSYS_CTNETLINK << 8

	newConnection    = connection | 0 // IPCTNL_MSG_CT_NEW
	getConnection    = connection | 1 // IPCTNL_MSG_CT_GET
	deleteConnection = connection | 2 // IPCTNL_MSG_CT_DELETE

	tupleOriginal, tupleReply = 1, 2 // CTA_TUPLE_*
	connectionZone            = 18   // CTA_ZONE
	connectionFilter          = 25   // CTA_FILTER
	tupleIP                   = 1    // CTA_TUPLE_IP
	sourceIP                  = 1    // CTA_IP_V4_SRC, and the bit in CTA_FILTER_*_FLAGS that asks for it
)

// Forget removes the connections from and to an address from the kernel's list. Its entries outlive the job
// that had the address before, and who keeps one alive would reach the next job by it: a user of the node
// whose connection the tables take for an old one, or a host that the last job called.
func Forget(a netip.Addr) error {
	if err := each(a, forget); err != nil {
		return fmt.Errorf("forget old connections of %s: %w", a, err)
	}
	return nil
}

func tryForget() error {
	return each(netip.IPv4Unspecified(), func(*netlink.Socket, []byte) error { return nil })
}

// each lists the connections of an address, and then gives each to a function.
func each(a netip.Addr, do func(*netlink.Socket, []byte) error) error {
	s, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open nfnetlink: %w", err)
	}
	defer s.Close()
	// What comes from the address, and what answers do.
	for _, side := range []uint16{tupleOriginal, tupleReply} {
		var old [][]byte
		if old, err = connections(s, side, a); err != nil {
			break
		}
		for _, m := range old {
			if err := do(s, m); err != nil {
				return err
			}
		}
	}
	if isMissing(err) {
		return hint.With(errors.New("this kernel does not show its list of connections"), "GN690 modprobe nf_conntrack_netlink, or install the kernel's package that has it")
	}
	return err
}

func forget(s *netlink.Socket, connection []byte) error {
	_, err := s.Do(deleteConnection, unix.NLM_F_ACK, 0, connection)
	if errors.Is(err, unix.ENOENT) { // it has ended by itself
		return nil
	}
	return err
}

// connections returns what identifies the entries where a side comes from an address.
func connections(s *netlink.Socket, side uint16, a netip.Addr) (all [][]byte, err error) {
	again := func() { all = nil }
	err = s.Each(getConnection, unix.NLM_F_DUMP, newConnection, from(side, a), again, func(m []byte) error {
		list, err := netlink.Behind(m, genHead, "conntrack")
		// Kernels before 5.8 list all connections.
		if err == nil && comesFrom(list, side, a) {
			all = append(all, identity(list))
		}
		return err
	})
	return all, err
}

// from returns a request for connections where a side comes from an address.
func from(side uint16, a netip.Addr) []byte {
	nested := func(kind uint16, value []byte) []byte { return netlink.Append(nil, kind|unix.NLA_F_NESTED, value) }
	ip := nested(tupleIP, netlink.Append(nil, sourceIP, a.AsSlice()))
	m := append([]byte{unix.AF_INET, 0, 0, 0}, nested(side, ip)...)
	return append(m, nested(connectionFilter, netlink.AppendUint32(nil, side, sourceIP))...)
}

func comesFrom(list netlink.Attributes, side uint16, a netip.Addr) bool {
	tuple, err := list.Nested(side)
	if err != nil {
		return false
	}
	ip, err := tuple.Nested(tupleIP)
	return err == nil && bytes.Equal(ip.Value(sourceIP), a.AsSlice())
}

// identity returns what identifies a connection.
func identity(list netlink.Attributes) []byte {
	m := []byte{unix.AF_INET, 0, 0, 0}
	for a := range list.All() {
		if a.Type() == tupleOriginal || a.Type() == connectionZone {
			m = netlink.Append(m, a.Kind, a.Value)
		}
	}
	return m
}
