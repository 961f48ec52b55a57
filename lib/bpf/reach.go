package bpf

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"gresnet/lib/hint"
)

// skBuffProtocol is where struct __sk_buff (uapi/linux/bpf.h) has the EtherType, in network order.
const skBuffProtocol = 16

// Verdicts of a program that a traffic filter runs (uapi/linux/pkt_cls.h).
const (
	pass = 0 // TC_ACT_OK
	drop = 2 // TC_ACT_SHOT
)

// Where a frame has what the program looks at.
const (
	ethernetHead    = 14
	ipVersion       = ethernetHead
	ipDestination   = ethernetHead + 16
	arpAsksFor      = ethernetHead + 24
	ipv4, noOptions = 4, 5 // words of the head
)

// NewReach loads a traffic filter that lets a frame pass if it goes to an address of one of
// the networks, or asks by ARP for one, and drops all others, IPv6 among them. What has IP
// options it drops, for these may say that the frame goes on to elsewhere.
func NewReach(networks []netip.Prefix) (*os.File, error) {
	code, err := assemble(reach(networks))
	if err != nil {
		return nil, err
	}
	p, err := load(unix.BPF_PROG_TYPE_SCHED_CLS, code)
	if err != nil {
		return nil, hint.With(fmt.Errorf("load a filter for the uplink: %w", err), "GN056 the kernel must be 5.2 or later, with CONFIG_BPF_SYSCALL")
	}
	return os.NewFile(uintptr(p), "BPF program"), nil
}

func reach(networks []netip.Prefix) []line {
	list := []line{
		copied(r6, r1),
		loaded(unix.BPF_W, r2, r6, skBuffProtocol),
		jump(unix.BPF_JEQ, r2, inNetworkOrder(unix.ETH_P_ARP), "arp"),
		jump(unix.BPF_JNE, r2, inNetworkOrder(unix.ETH_P_IP), "drop"),
	}
	list = append(list, read(ipVersion, 1)...)
	list = append(list,
		loaded(unix.BPF_B, r2, frame, -8),
		jump(unix.BPF_JNE, r2, ipv4<<4|noOptions, "drop"))
	list = append(list, read(ipDestination, 4)...)
	list = append(list, jump(unix.BPF_JEQ, r0, 0, "compare"))
	asked := read(arpAsksFor, 4)
	asked[0] = asked[0].named("arp")
	list = append(list, asked...)
	list = append(list,
		jump(unix.BPF_JEQ, r0, 0, "compare"),
		set(r0, drop).named("drop"),
		exit(),
		loaded(unix.BPF_W, r7, frame, -8).named("compare"))
	for n, network := range networks {
		address := network.Masked().Addr().As4()
		// As the program loads them.
		mask, want := ^uint32(0)<<(32-network.Bits()), binary.NativeEndian.Uint32(address[:])
		next := fmt.Sprint("network ", n+1)
		list = append(list,
			copied(r2, r7).named(fmt.Sprint("network ", n)),
			computed(unix.BPF_AND, r2, int32(binary.NativeEndian.Uint32(binary.BigEndian.AppendUint32(nil, mask)))),
			jumpUnlessWord(r2, int32(want), next),
			set(r0, pass),
			exit())
	}
	return append(list,
		set(r0, drop).named(fmt.Sprint("network ", len(networks))),
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

// inNetworkOrder is a number of 16 bits as the program loads it.
func inNetworkOrder(n uint16) int32 {
	return int32(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, n)))
}
