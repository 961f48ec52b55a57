package report_test

import (
	"io"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/test/golden"
)

func TestPartsAreToldByPFAndByPartition(t *testing.T) {
	slot := func(number string, index int, k node.PKeyText) report.HCA {
		return report.HCA{Name: "mlx5_1", ID: node.ID{PCI: "0000:3b:00.0", Slot: number}, Gres: "nic", Index: &index, Part: "pkey", PKey: k}
	}
	got := golden.Printed(t, func(w io.Writer) error {
		report.PrintParts(w, []report.HCA{
			{Name: "mlx5_0", ID: node.ID{GUID: "0002:c903:00ab:0000", PCI: "0000:0c:00.0"}},
			{Name: "mlx5_2", ID: node.ID{PCI: "0000:0c:00.0", VF: "3"}},
			{Name: "mlx5_3", ID: node.ID{PCI: "0000:0d:00.0", VF: "1"}},
			slot("1", 7, 0x8001), slot("0", 6, 0x8001), slot("2", 8, 0), slot("3", 9, 0x8001),
		})
		return nil
	})
	const want = "mlx5_2 is VF 3 of mlx5_0\nmlx5_3 is VF 1 of 0000:0d:00.0\nP_Key 0x8001: nic 6-7,9\nP_Keys of [[policy]]: nic 8\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
