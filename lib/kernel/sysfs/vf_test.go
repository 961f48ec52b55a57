package sysfs_test

import (
	"errors"
	"io/fs"
	"strconv"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/sysfs"
)

const pciDevices = "bus/pci/devices/"

// pfTree returns a /sys of a PF, 0000:3b:00.0, with twelve VFs, and of another function.
func pfTree(t *testing.T) fs.FS {
	t.Helper()
	links := map[string]string{}
	for n := range 12 {
		vf := "0000:3b:0" + strconv.Itoa(1+n/8) + "." + strconv.Itoa(n%8)
		links[pciDevices+vf+"/physfn"] = "../0000:3b:00.0"
		links[pciDevices+"0000:3b:00.0/virtfn"+strconv.Itoa(n)] = "../" + vf
	}
	return tree(t, links, map[string]string{
		pciDevices + "0000:3b:00.0/sriov_numvfs":   "12\n",
		pciDevices + "0000:3b:00.0/sriov_totalvfs": "16\n",
		pciDevices + "0000:5e:00.0/class":          "0x020000\n",
	})
}

func TestAVFIsKnownByItsPFAndItsNumberWhateverItsGUIDIs(t *testing.T) {
	sys := pfTree(t)
	for _, guid := range []string{"0000:0000:0000:0000", "0002:c903:00ab:0007"} {
		h, err := sysfs.HCA(sys, "mlx5_9", guid, sysfs.BusAddress{PCI: "0000:3b:02.2"})
		if want := (node.ID{PCI: "0000:3b:00.0", VF: "10"}); err != nil || h.ID != want {
			t.Errorf("with GUID %s it is %+v, %v", guid, h.ID, err)
		}
		if h.PCI() != "0000:3b:02.2" || h.NodeGUID() != guid {
			t.Errorf("it has the function %s and the GUID %s", h.PCI(), h.NodeGUID())
		}
		if at, err := sysfs.AddressOf(sys, h.ID); err != nil || at.PCI != "0000:3b:02.2" {
			t.Errorf("it is at %+v, %v", at, err)
		}
	}
	for _, pci := range []string{"0000:3b:00.0", "0000:5e:00.0", ""} {
		h, err := sysfs.HCA(sys, "mlx5_0", "0002:c903:00ab:0000", sysfs.BusAddress{PCI: pci})
		if want := (node.ID{GUID: "0002:c903:00ab:0000", PCI: pci}); err != nil || h.ID != want || h.PCI() != pci {
			t.Errorf("%s is %+v, %v", pci, h, err)
		}
	}
}

func TestAVFThatItsPFHasNoMoreIsGone(t *testing.T) {
	sys := pfTree(t)
	verbs := []sysfs.Owner{{Device: "mlx5_9", Address: sysfs.BusAddress{PCI: "0000:3b:01.3"}}}
	for number, want := range map[string]bool{"3": false, "4": true, "12": true} {
		if at, err := sysfs.VerbsAt(sys, verbs, node.ID{PCI: "0000:3b:00.0", VF: number}); err != nil || len(at) == 0 != want {
			t.Errorf("VF %s has %v, %v", number, at, err)
		}
	}
	if _, err := sysfs.AddressOf(sys, node.ID{PCI: "0000:3b:00.0", VF: "12"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("VF 12 is somewhere: %v", err)
	}
}

func TestVFsAreCountedOfAPFAlone(t *testing.T) {
	sys := pfTree(t)
	for pci, want := range map[string][2]int{"0000:3b:00.0": {12, 16}, "0000:5e:00.0": {}, "0000:3b:01.0": {}} {
		if now, total, err := sysfs.VFs(sys, pci); err != nil || now != want[0] || total != want[1] {
			t.Errorf("%s has %d of %d VFs, %v", pci, now, total, err)
		}
	}
}
