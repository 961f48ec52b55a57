package main

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

// socket is a netlink socket of the namespace that the thread is in.
type socket int

func open(family int) (socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return 0, fmt.Errorf("open a netlink socket: %w", err)
	}
	return socket(fd), nil
}

// send sends one request and takes its acknowledgement (netlink(7)): the kernel
// carries the request out within sendto.
func (s socket) send(kind, flags uint16, body []byte) error {
	m := make([]byte, 0, unix.SizeofNlMsghdr+len(body))
	m = native.AppendUint32(m, uint32(unix.SizeofNlMsghdr+len(body)))
	m = native.AppendUint16(m, kind)
	m = native.AppendUint16(m, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	m = append(m, 1, 0, 0, 0, 0, 0, 0, 0)
	m = append(m, body...)
	if err := unix.Sendto(int(s), m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(int(s), answer, 0)
	switch {
	case err != nil:
		return err
	case n < 20 || native.Uint16(answer[4:]) != unix.NLMSG_ERROR:
		return unix.EBADMSG
	}
	if errno := -int32(native.Uint32(answer[16:])); errno != 0 {
		return unix.Errno(errno)
	}
	return nil
}

// attribute appends one attribute to a message.
func attribute(m []byte, kind uint16, value []byte) []byte {
	m = native.AppendUint16(m, uint16(unix.SizeofRtAttr+len(value)))
	m = native.AppendUint16(m, kind)
	m = append(m, value...)
	for len(m)%4 != 0 {
		m = append(m, 0)
	}
	return m
}

func u32(v uint32) []byte { return native.AppendUint32(nil, v) }

// moveRDMA moves an RDMA device to the namespace behind a descriptor
// (include/uapi/rdma/rdma_netlink.h: RDMA_NL_NLDEV, RDMA_NLDEV_CMD_SET).
func (s socket) moveRDMA(index uint32, nsfd int) error {
	const nldevSet = 5<<10 | 2
	const attrDevIndex, attrNetnsFD = 1, 68
	m := attribute(nil, attrDevIndex, u32(index))
	m = attribute(m, attrNetnsFD, u32(uint32(nsfd)))
	if err := s.send(nldevSet, 0, m); err != nil {
		return fmt.Errorf("move RDMA device %d: %w", index, err)
	}
	return nil
}

// setLink brings an interface up; with a name, in the namespace behind nsfd and
// under that name.
func (s socket) setLink(index int, name string, nsfd int) error {
	m := make([]byte, unix.SizeofIfInfomsg)
	native.PutUint32(m[4:], uint32(index))
	native.PutUint32(m[8:], unix.IFF_UP)
	native.PutUint32(m[12:], unix.IFF_UP)
	if name != "" {
		m = attribute(m, unix.IFLA_NET_NS_FD, u32(uint32(nsfd)))
		m = attribute(m, unix.IFLA_IFNAME, append([]byte(name), 0))
	}
	if err := s.send(unix.RTM_NEWLINK, 0, m); err != nil {
		return fmt.Errorf("set interface %d %s: %w", index, name, err)
	}
	return nil
}

// setNetwork gives an interface, which has an index now, its addresses and routes.
func (s socket) setNetwork(l link, index int) error {
	const flags = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	for _, m := range l.addresses {
		native.PutUint32(m[4:], uint32(index)) // ifa_index
		if err := s.send(unix.RTM_NEWADDR, flags, m); err != nil {
			return fmt.Errorf("add an address to %s: %w", l.name, err)
		}
	}
	for _, m := range l.routes {
		native.PutUint32(m[len(m)-4:], uint32(index)) // RTA_OIF
		if err := s.send(unix.RTM_NEWROUTE, flags, m); err != nil {
			return fmt.Errorf("add a route by %s: %w", l.name, err)
		}
	}
	return nil
}

// find asks for the index of an interface that was made again under a name.
func (s socket) find(l link, name string) (int, error) {
	if l.index != 0 {
		return l.index, nil
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(int(s), unix.SIOCGIFINDEX, request); err != nil {
		return 0, fmt.Errorf("find %s: %w", name, err)
	}
	return int(request.Uint32()), nil
}

// remade asks for the index of an interface that its RDMA device's move has made again in the node. Its name is the
// first that was free then, and so hangs on which others had left: the HCA's folder tells it. The error is ENOENT if
// the HCA has no interface in the node.
func (s socket) remade(l link) (int, error) {
	if l.index != 0 {
		return l.index, nil
	}
	fd, err := unix.Open(l.folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", l.folder, err)
	}
	entries := make([]byte, 4096)
	n, err := unix.ReadDirent(fd, entries)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", l.folder, err)
	}
	_, _, names := unix.ParseDirent(entries[:n], -1, nil)
	if len(names) == 0 {
		return 0, fmt.Errorf("look for an interface in %s: %w", l.folder, unix.ENOENT)
	}
	return s.find(l, names[0])
}
