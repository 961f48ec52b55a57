package link

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
)

// described returns an interface as the kernel describes it.
func described(t *testing.T, parent, mac, permanent string) Interface {
	t.Helper()
	m := make([]byte, unix.SizeofIfInfomsg)
	for kind, text := range map[uint16]string{unix.IFLA_ADDRESS: mac, unix.IFLA_PERM_ADDRESS: permanent} {
		if hw, err := net.ParseMAC(text); err == nil {
			m = netlink.Append(m, kind, hw)
		}
	}
	if parent != "" {
		m = netlink.AppendText(m, unix.IFLA_PARENT_DEV_BUS_NAME, "pci")
		m = netlink.AppendText(m, unix.IFLA_PARENT_DEV_NAME, parent)
	}
	i, err := decode(m)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestAnInterfaceOfAPCIFunctionIsTheSameWithAnotherMAC(t *testing.T) {
	const vf, other = "0000:3b:01.2", "0000:3b:01.3"
	const mac, bonds, permanent = "02:00:00:00:00:01", "02:00:00:00:00:02", "0c:00:00:00:00:03"
	for _, own := range []string{"", permanent} {
		before, after := described(t, vf, mac, own), described(t, vf, bonds, own)
		if before.ID != after.ID {
			t.Errorf("it was %+v and is %+v", before.ID, after.ID)
		}
		if next := described(t, other, mac, own); next.ID == before.ID {
			t.Errorf("another function's interface is %+v, too", next.ID)
		}
	}
	// A VF's driver says of any MAC that it is permanent.
	pciDevices = t.TempDir()
	t.Cleanup(func() { pciDevices = "/sys/bus/pci/devices" })
	if err := os.MkdirAll(filepath.Join(pciDevices, vf, "physfn"), 0o755); err != nil {
		t.Fatal(err)
	}
	now := described(t, vf, bonds, bonds)
	for _, before := range []ID{described(t, vf, mac, mac).ID, described(t, vf, mac, "").ID} {
		if now.ID != before {
			t.Errorf("the VF's interface was %+v and is %+v", before, now.ID)
		}
	}
	if err := os.Symlink("../../../../bus/pci/drivers/mlx4_core", filepath.Join(pciDevices, vf, "driver")); err != nil {
		t.Fatal(err)
	}
	if one, other := described(t, vf, mac, mac), described(t, vf, bonds, bonds); one.ID == other.ID {
		t.Error("the interfaces of two ports of a VF are one")
	}
	// What stands on no device, as a dummy does, has nothing but its MAC.
	if described(t, "", mac, "").ID == described(t, "", bonds, "").ID {
		t.Error("an interface without a device is one with another MAC")
	}
}

func TestACarrierIsWaitedForUntilTheKernelHasDoneWhatFollowsFromIt(t *testing.T) {
	const up, carrier = unix.IFF_UP, unix.IFF_UP | unix.IFF_LOWER_UP
	// States of linux/if.h: unknown 0, down 2, lower layer down 3, testing 4, dormant 5, up 6.
	for _, tt := range []struct {
		flags uint32
		state byte
		lacks bool
	}{
		{up, 2, true}, {up, 0, true},
		{carrier, 2, true}, {carrier, 3, true},
		{carrier, 0, false}, {carrier, 4, false}, {carrier, 5, false}, {carrier, 6, false},
		{0, 2, false},
	} {
		m := make([]byte, unix.SizeofIfInfomsg)
		native.PutUint32(m[8:], tt.flags)
		i, err := decode(netlink.Append(m, unix.IFLA_OPERSTATE, []byte{tt.state}))
		if err != nil {
			t.Fatal(err)
		}
		if got := new(Conn).lacksCarrier(i, Own{Up: true, Running: true}); got != tt.lacks {
			t.Errorf("flags %#x, state %d: lacks the carrier: %v", tt.flags, tt.state, got)
		}
	}
}
