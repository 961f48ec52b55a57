package scan

import (
	"reflect"
	"testing"

	"gresnet/lib/kernel/rdma"
)

func TestTheSubDevicesOfAnHCAAreItsPartsAndOfNoOther(t *testing.T) {
	list := []rdma.Device{
		{Index: 0, Name: "mlx5_0"}, {Index: 1, Name: "smi0", Sub: true, Parent: "mlx5_0"},
		{Index: 2, Name: "mlx5_1"}, {Index: 3, Name: "smi1", Sub: true, Parent: "mlx5_1"},
		{Index: 4, Name: "plane1", Sub: true, Parent: "mlx5_0"}, {Index: 5, Name: "other", Sub: true},
	}
	if got, want := partsOf("mlx5_0", list), []rdma.Device{list[1], list[4]}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := partsOf("mlx5_2", list); got != nil {
		t.Errorf("one without has %v", got)
	}
}
