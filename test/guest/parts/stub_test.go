package parts

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// The PFs of test/vm/vm's pfs, and their interfaces.
const (
	rocePF, roceLink = "0000:01:00.0", "enp1s0"
	ibPF, ibLink     = "0000:02:00.0", "ibp2s0"
)

// split gives a PF some VFs, and takes them away at the end of the test.
func split(t *testing.T, pf string, count int) {
	t.Helper()
	file := "/sys/bus/pci/devices/" + pf + "/sriov_numvfs"
	t.Cleanup(func() { vm.Run(t, "echo 0 >"+file+"; udevadm settle") })
	vm.Run(t, fmt.Sprintf("echo %d >%s; udevadm settle", count, file))
}

// vfOf returns the PCI address of a PF's VF.
func vfOf(t *testing.T, pf string, number int) string {
	t.Helper()
	return strings.TrimSpace(vm.Run(t, fmt.Sprintf("basename $(readlink /sys/bus/pci/devices/%s/virtfn%d)", pf, number)))
}

// rebind has the driver let go of a VF and take it again.
func rebind(t *testing.T, vf string) {
	t.Helper()
	vm.Run(t, strings.ReplaceAll("cd /sys/bus/pci/drivers/ibfake; echo VF >unbind; echo VF >bind; udevadm settle", "VF", vf))
}

func TestARoCEPFOfTheTestBedKeepsEveryAttributeOfItsVFs(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	split(t, rocePF, 3)
	look := func() []string {
		var vfs []string
		for line := range strings.Lines(vm.Run(t, "ip link show "+roceLink)) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "vf ") {
				vfs = append(vfs, line)
			}
		}
		return vfs
	}
	before := look()
	if len(before) != 3 {
		t.Fatalf("VFs are %q", before)
	}
	for _, c := range []struct{ set, want string }{
		{"mac 02:00:00:00:00:07", "link/ether 02:00:00:00:00:07"},
		{"vlan 100 qos 3", "vlan 100, qos 3,"},
		{"vlan 100 qos 3 proto 802.1ad", "vlan protocol 802.1ad"},
		{"min_tx_rate 5 max_tx_rate 100", "max_tx_rate 100Mbps, min_tx_rate 5Mbps"},
		{"spoofchk on", "spoof checking on"},
		{"trust on", "trust on"},
		{"state disable", "link-state disable"},
	} {
		vm.Run(t, "ip link set "+roceLink+" vf 1 "+c.set)
		now := look()
		if !strings.Contains(now[1], c.want) {
			t.Errorf("after %q it is %q", c.set, now[1])
		}
		if now[0] != before[0] || now[2] != before[2] {
			t.Errorf("%q of VF 1 changed others: %q", c.set, now)
		}
	}
	if out, err := vm.Try("ip link set " + roceLink + " vf 3 trust on"); err == nil {
		t.Errorf("there is a VF 3: %s", out)
	}
}

func TestAMACAndGUIDsOfTheTestBedsVFsCountFromTheNextBind(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	split(t, rocePF, 2)
	split(t, ibPF, 2)
	vm.Run(t, "ip link set "+roceLink+" vf 1 mac 02:00:00:00:00:07")
	vm.Run(t, "ip link set "+ibLink+" vf 1 node_guid 02:00:00:00:00:00:00:07; ip link set "+ibLink+" vf 1 port_guid 02:00:00:00:00:00:00:08")
	roce, ib := vfOf(t, rocePF, 1), vfOf(t, ibPF, 1)
	look := func() string {
		return vm.Run(t, "cd /sys/bus/pci/devices; cat "+roce+"/net/*/address "+ib+"/infiniband/*/node_guid "+ib+"/infiniband/*/ports/1/gids/0")
	}
	const guids = "\n0000:0000:0000:0000\nfe80:0000:0000:0000:0000:0000:0000:0000\n"
	if now := look(); strings.HasPrefix(now, "02:00:00:00:00:07") || !strings.HasSuffix(now, guids) {
		t.Errorf("before a bind they are\n%s", now)
	}
	rebind(t, roce)
	rebind(t, ib)
	if now := look(); now != "02:00:00:00:00:07\n0200:0000:0000:0007\nfe80:0000:0000:0000:0200:0000:0000:0008\n" {
		t.Errorf("after it they are\n%s", now)
	}
	if out, err := vm.Try("ip link set " + ibLink + " vf 1 vlan 4"); err == nil {
		t.Errorf("an InfiniBand PF took a VLAN: %s", out)
	}
}
