package ports

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// Used returns the ports from which jobs have blocks and that sockets of the namespace have, in order. A job does not get
// their block: what comes for the block comes to the job, and not to such a socket.
func Used() (all []Block, err error) {
	s, err := netlink.Open(unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask for the node's sockets: %w", err)
	}
	defer s.Close()
	var found []int
	for _, proto := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
			err := s.Each(unix.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP, unix.SOCK_DIAG_BY_FAMILY, sockets(family, proto), func() {}, func(m []byte) error {
				if len(m) >= 6 {
					found = append(found, int(binary.BigEndian.Uint16(m[4:]))) // struct inet_diag_msg
				}
				return nil
			})
			if err != nil {
				return nil, fmt.Errorf("ask for the node's sockets: %w", err)
			}
		}
	}
	slices.Sort(found)
	for _, port := range slices.Compact(found) {
		all = append(all, Block{port, port})
	}
	return all, nil
}

// sockets returns the request for the sockets whose port is not below First, and which do not only wait for late
// packets of a connection (struct inet_diag_req_v2).
func sockets(family, proto byte) []byte {
	const timeWait = 1 << 6
	const code, greaterOrEqual = 1, 2 // INET_DIAG_REQ_BYTECODE, INET_DIAG_BC_S_GE
	m := make([]byte, 56)
	m[0], m[1] = family, proto
	binary.NativeEndian.PutUint32(m[4:], ^uint32(timeWait))
	// The first jump is behind the end if the port is smaller, and so refuses the socket.
	test := []byte{greaterOrEqual, 8, 0, 0, 0, 0, 0, 0}
	binary.NativeEndian.PutUint16(test[2:], 12)
	binary.NativeEndian.PutUint16(test[6:], First)
	return netlink.Append(m, code, test)
}

// Ephemeral returns the ports that the namespace's kernel gives to programs which ask for none.
func Ephemeral() (b Block, err error) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(text), &b.First, &b.Last)
	}
	if err != nil {
		return Block{}, fmt.Errorf("read which ports the node's programs get: %w", err)
	}
	return b, nil
}
