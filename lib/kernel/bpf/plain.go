package bpf

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/hint"
)

// skBuffProtocol is where struct __sk_buff (uapi/linux/bpf.h) has the EtherType, in network order.
const skBuffProtocol = 16

// Verdicts of a program that a traffic filter runs (uapi/linux/pkt_cls.h).
const (
	pass = 0 // TC_ACT_OK
	drop = 2 // TC_ACT_SHOT
)

// Where a frame has what the program looks at, and what that is in IPv4 without options.
const (
	ipVersion       = 14
	ipSource        = ipVersion + 12
	ipDestination   = ipVersion + 16
	ipv4, noOptions = 4, 5 // words of the head
	loopback        = 127  // the first byte of an address
)

// NewPlain loads a traffic filter that lets IPv4 from an address and ARP pass, and drops all others, IPv6
// among them. It drops what has another source, which the node would send on as it is: an HCA's address, to
// which a program binds, or what the job's own table does not translate. It drops what has IP options, for
// these may say that the packet goes on to elsewhere, and what goes to a loopback address, which a node takes
// in with the sysctl route_localnet.
func NewPlain(from netip.Addr) (*os.File, error) {
	code, err := assemble(plainIPv4(from.As4()))
	if err != nil {
		return nil, err
	}
	p, err := load(unix.BPF_PROG_TYPE_SCHED_CLS, code)
	if err != nil {
		return nil, hint.With(fmt.Errorf("load a filter for the uplink: %w", err), "GN056 the kernel must have CONFIG_BPF_SYSCALL")
	}
	return os.NewFile(uintptr(p), "BPF program"), nil
}

func plainIPv4(from [4]byte) []line {
	list := []line{
		copied(r6, r1),
		loaded(unix.BPF_W, r2, r6, skBuffProtocol),
		jump(unix.BPF_JEQ, r2, inNetworkOrder(unix.ETH_P_ARP), "pass"),
		jump(unix.BPF_JNE, r2, inNetworkOrder(unix.ETH_P_IP), "drop"),
	}
	list = append(list, read(ipVersion, 1)...)
	list = append(list,
		loaded(unix.BPF_B, r2, frame, -8),
		jump(unix.BPF_JNE, r2, ipv4<<4|noOptions, "drop"))
	// The kernel compares with a number of 32 bits as with one of 64, by its sign.
	list = append(list, read(ipSource, 4)...)
	list = append(list,
		loaded(unix.BPF_H, r2, frame, -8),
		jump(unix.BPF_JNE, r2, inNetworkOrder(binary.BigEndian.Uint16(from[:2])), "drop"),
		loaded(unix.BPF_H, r2, frame, -6),
		jump(unix.BPF_JNE, r2, inNetworkOrder(binary.BigEndian.Uint16(from[2:])), "drop"))
	list = append(list, read(ipDestination, 1)...)
	return append(list,
		loaded(unix.BPF_B, r2, frame, -8),
		jump(unix.BPF_JEQ, r2, loopback, "drop"),
		set(r0, pass).named("pass"),
		exit(),
		set(r0, drop).named("drop"),
		exit())
}

// read reads some bytes of a frame to the stack, or drops the frame if it has none there.
func read(at, size int32) []line {
	return []line{
		copied(r1, r6),
		set(r2, at),
		copied(r3, frame),
		computed(unix.BPF_ADD, r3, -8),
		set(r4, size),
		called(skbLoadBytes),
		jump(unix.BPF_JNE, r0, 0, "drop"),
	}
}

// inNetworkOrder returns a number of 16 bits as the program loads it.
func inNetworkOrder(n uint16) int32 {
	return int32(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n)))
}
