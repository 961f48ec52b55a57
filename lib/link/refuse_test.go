package link_test

import (
	"strings"
	"testing"
	"unsafe"

	"gresnet/lib/link"
	"gresnet/test/netnstest"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func TestWhatCannotBeRestoredIsRefusedBeforeAnythingChanges(t *testing.T) {
	tests := []struct{ name, setup, want string }{
		{"a master", `ip link add br0 type bridge; ip link set hca0 master br0`, "hca0 belongs to bridge br0"},
		{"a queueing discipline with classes", `tc qdisc add dev hca0 root handle 1: htb`, "hca0 has queueing discipline htb"},
		{"a child that goes with it", `ip link add vx0 type vxlan id 7 dev hca0 dstport 4789 remote 10.0.0.9`, "vx0 stands on hca0"},
		{"ingress", `tc qdisc add dev hca0 ingress`, "hca0 has queueing discipline ingress"},
		{"clsact", `tc qdisc add dev hca0 clsact`, "hca0 has queueing discipline clsact"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBed(t)
			b.node.Run(tt.setup)
			before := picture(b.node)
			refused(t, b.node, tt.want)
			if diff := netnstest.Diff(before, picture(b.node)); diff != "" {
				t.Errorf("before (-) and after (+):\n%s", diff)
			}
		})
	}
}

func TestAnXDPProgramIsRefused(t *testing.T) {
	b := newBed(t)
	err := b.node.Do(func() error {
		l, err := netlink.LinkByName("hca0")
		if err != nil {
			return err
		}
		fd := passXDP(t)
		defer unix.Close(fd)
		return netlink.LinkSetXdpFd(l, fd)
	})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, b.node, "hca0 has an XDP program attached")
}

// passXDP loads the program `return XDP_PASS`.
func passXDP(t *testing.T) int {
	program := []uint64{0x2_0000_00b7, 0x95} // r0 = 2; exit
	license := []byte("GPL\x00")
	// union bpf_attr of BPF_PROG_LOAD (linux/bpf.h).
	attr := struct {
		kind, count       uint32
		program, license  uint64
		logLevel, logSize uint32
		log               uint64
	}{
		kind:    unix.BPF_PROG_TYPE_XDP,
		count:   uint32(len(program)),
		program: uint64(uintptr(unsafe.Pointer(&program[0]))),
		license: uint64(uintptr(unsafe.Pointer(&license[0]))),
	}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		t.Fatalf("load an XDP program: %v", errno)
	}
	return int(fd)
}

func refused(t *testing.T, ns *netnstest.NS, want string) {
	t.Helper()
	in(t, ns, func(c *link.Conn) error {
		_, err := c.Settings(find(t, c, "hca0").Index)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Settings: %v, want an error with %q", err, want)
		}
		return nil
	})
}
