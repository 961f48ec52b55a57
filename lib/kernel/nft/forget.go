package nft

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/netlink"
)

// Of linux/netfilter/nfnetlink_conntrack.h, which x/sys/unix lacks.
const (
	connection = unix.NFNL_SUBSYS_CTNETLINK << 8

	newConnection    = connection     // IPCTNL_MSG_CT_NEW
	getConnection    = connection | 1 // IPCTNL_MSG_CT_GET
	deleteConnection = connection | 2 // IPCTNL_MSG_CT_DELETE

	tupleOriginal, tupleReply = 1, 2 // CTA_TUPLE_*
	connectionZone            = 18   // CTA_ZONE
	connectionFilter          = 25   // CTA_FILTER
	filterSourceIP            = 1    // of the kernel's nf_internals.h: CTA_FILTER_F_CTA_IP_SRC
	tupleIP                   = 1    // CTA_TUPLE_IP
	sourceIP                  = 1    // CTA_IP_V4_SRC
)

// Forget removes the connections from and to an address from the kernel's list. Its entries outlive the job
// that had the address before, and who keeps one alive would reach the next job by it: a user of the node
// whose connection the tables take for an old one, or a host that the last job called.
func Forget(a netip.Addr) error {
	if tracksNone() {
		return nil
	}
	err := forgetAll(a)
	if errors.Is(err, errNoChoice) {
		err = each(a, forget)
	}
	if err != nil {
		return fmt.Errorf("forget old connections of %s: %w", a, err)
	}
	return nil
}

// tracksNone tells whether the kernel tracks no connection. It counts each before it lists it, and until it is off the
// list again (nf_conntrack_core.c).
func tracksNone() bool {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
	return err == nil && string(text) == "0\n"
}

// errNoChoice is of a kernel that removes one connection or all.
var errNoChoice = errors.New("this kernel does not choose connections to remove")

// forgetAll has the kernel choose the connections of an address, as it can since Linux 6.8. It then passes over the
// empty places of its hash table, where a list takes a lock for each: 12 ms for the 262144 that a node has.
func forgetAll(a netip.Addr) error {
	s, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open nfnetlink: %w", err)
	}
	defer s.Close()
	for _, side := range []uint16{tupleOriginal, tupleReply} {
		_, err := s.Do(deleteConnection, unix.NLM_F_ACK, 0, thatComeFrom(a, side))
		if isMissing(err) {
			return errNoChoice
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// thatComeFrom names the connections that an address is the source of on a side. Version 1 has the kernel heed the
// family. No kernel takes the request to be for all connections: an older one misses the rest of an identity.
func thatComeFrom(a netip.Addr, side uint16) []byte {
	const version = 1
	tuple := netlink.Append(nil, unix.NLA_F_NESTED|tupleIP, netlink.Append(nil, sourceIP, a.AsSlice()))
	filter := netlink.AppendUint32(nil, side, filterSourceIP) // CTA_FILTER_*_FLAGS count as CTA_TUPLE_* do
	m := netlink.Append([]byte{unix.AF_INET, version, 0, 0}, unix.NLA_F_NESTED|side, tuple)
	return netlink.Append(m, unix.NLA_F_NESTED|connectionFilter, filter)
}

func tryForget() error {
	return each(netip.IPv4Unspecified(), func(*netlink.Socket, []byte) error { return nil })
}

// each lists the connections of an address, and then gives each to a function. The list is as long as
// Tracked says at most. The kernel could choose by one side's address alone, and goes through all of its
// hash table each time.
func each(a netip.Addr, do func(*netlink.Socket, []byte) error) error {
	s, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("open nfnetlink: %w", err)
	}
	defer s.Close()
	var old [][]byte
	again := func() { old = nil }
	err = s.Each(getConnection, unix.NLM_F_DUMP, newConnection, []byte{unix.AF_INET, 0, 0, 0}, again, func(m []byte) error {
		list, err := netlink.Behind(m, genHead, "conntrack")
		// What comes from the address, or answers do.
		if err == nil && (comesFrom(list, tupleOriginal, a) || comesFrom(list, tupleReply, a)) {
			old = append(old, identity(list))
		}
		return err
	})
	if isMissing(err) {
		return hint.With(errors.New("this kernel does not show its list of connections"), "GN690 modprobe nf_conntrack_netlink, or install the kernel's package that has it")
	}
	for _, m := range old {
		if err == nil {
			err = do(s, m)
		}
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
