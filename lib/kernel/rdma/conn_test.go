package rdma

import (
	"testing"

	"gresnet/lib/kernel/netlink"
)

func TestADeviceWithATypeOrAParentIsAPartOfAnHCA(t *testing.T) {
	hca := netlink.Append(netlink.AppendText(ofDevice(3), attrDevName, "mlx5_0"), attrNodeGUID, []byte{1, 0, 0, 0, 0, 0, 0, 2})
	smi := netlink.Append(netlink.AppendText(ofDevice(4), attrDevName, "smi1"), attrNodeGUID, []byte{1, 0, 0, 0, 0, 0, 0, 2})
	for _, c := range []struct {
		name    string
		message []byte
		sub     bool
		parent  string
	}{
		{"an HCA", hca, false, ""},
		{"an SMI device", netlink.AppendText(netlink.Append(smi, attrDevType, []byte{1}), attrParentName, "mlx5_0"), true, "mlx5_0"},
		{"a part of a type to come", netlink.AppendText(smi, attrParentName, "mlx5_0"), true, "mlx5_0"},
		{"a part without a parent's name", netlink.Append(smi, attrDevType, []byte{2}), true, ""},
	} {
		a, err := netlink.Parse(c.message)
		if err != nil {
			t.Fatal(err)
		}
		if d := devicesIn([]netlink.Attributes{a})[0]; d.Sub != c.sub || d.Parent != c.parent || d.GUID != "0200:0000:0000:0001" {
			t.Errorf("%s: got %+v", c.name, d)
		}
	}
}

func TestDriversAreNamedAsTheKernelCountsThem(t *testing.T) {
	for id, want := range map[uint64]string{0: "", 1: "mlx5", 17: "efa", 20: "mana", 21: "ionic", 22: "driver 22", 1 << 40: "driver 1099511627776"} {
		if got := DriverName(id); got != want {
			t.Errorf("%d is %q, want %q", id, got, want)
		}
	}
}
