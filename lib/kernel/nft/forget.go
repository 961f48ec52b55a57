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

	newConnection    = connection     // IPCTNL_MSG_CT_NEW
	getConnection    = connection | 1 // IPCTNL_MSG_CT_GET
	deleteConnection = connection | 2 // IPCTNL_MSG_CT_DELETE

	tupleOriginal, tupleReply = 1, 2 // CTA_TUPLE_*
	connectionZone            = 18   // CTA_ZONE
	tupleIP                   = 1    // CTA_TUPLE_IP
	sourceIP                  = 1    // CTA_IP_V4_SRC
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
