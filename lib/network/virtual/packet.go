package virtual

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Packet is the first one of a connection.
type Packet struct {
	From, To       netip.Addr // IPv4
	Protocol       byte       // TCP or UDP
	FromPort, Port uint16
	By             int // index of the interface by which it arrives
}

// The protocols of packets.
const (
	TCP = unix.IPPROTO_TCP
	UDP = unix.IPPROTO_UDP
)

// Length returns the length of the packet with its IPv4 header.
func (p Packet) Length() int { return len(p.bytes()) }

// Send sends the packet from the job's end of a veth, in a frame to a MAC.
func (p Packet) Send(u Uplink, to net.HardwareAddr) error {
	s, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	frame := slices.Concat([]byte(to), u.MAC, binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP), p.bytes())
	return os.NewSyscallError("send", unix.Sendto(s, frame, 0, &unix.SockaddrLinklayer{Ifindex: u.Place}))
}

// bytes returns the packet with its IPv4 header. That of UDP has no checksum, which it need not have.
func (p Packet) bytes() []byte {
	const version, ttl, synchronize, words = 0x45, 64, 2, 5 << 4
	ports := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, p.FromPort), p.Port)
	above := append(ports, 0, 8, 0, 0)
	if p.Protocol == TCP {
		above = append(ports, 0, 0, 0, 1, 0, 0, 0, 0, words, synchronize, 0xff, 0xff, 0, 0, 0, 0)
		pseudo := slices.Concat(p.From.AsSlice(), p.To.AsSlice(), []byte{0, p.Protocol, 0, byte(len(above))})
		binary.BigEndian.PutUint16(above[16:], checksum(append(pseudo, above...)))
	}
	head := slices.Concat([]byte{version, 0, 0, byte(20 + len(above)), 0, 0, 0, 0, ttl, p.Protocol, 0, 0}, p.From.AsSlice(), p.To.AsSlice())
	binary.BigEndian.PutUint16(head[10:], checksum(head))
	return append(head, above...)
}

// checksum is the internet's (RFC 1071), of an even number of bytes.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for pair := range slices.Chunk(b, 2) {
		sum += uint32(binary.BigEndian.Uint16(pair))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
