package lease

import (
	"testing"

	"gresnet/lib/table"
)

// An HCA that did not come up at boot is no reason not to show the others.
func TestTheStatusOfANodeThatMissesAnHCA(t *testing.T) {
	const first = "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_1\"\n[[hca]]\nindex = 1\nmatch = "
	n, _ := heldNode(t, first+"\"rdma=mlx5_7\"\n")
	s, err := n.Status(t.Context())
	if err != nil || s.Drift != nil || len(s.HCAs) != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	if got := s.HCAs[1]; got.HCA.Name != "mlx5_1" || got.Gres != "nic" {
		t.Errorf("the HCA that is there is %+v", got)
	}
	if got := s.HCAs[2]; got.State() != Missing || got.Gres != "nic" || got.Index != 1 {
		t.Errorf("the one that is missing is %+v", got)
	}
	n, _ = heldNode(t, first+"\"pci=11:00.0\"\n")
	n.update(t, func(now *table.Table) { now.HCAs[1].ID.PCI = "0000:11:00.0" })
	s, err = n.Status(t.Context())
	if err != nil || s.Drift == nil || len(s.HCAs) != 2 || s.HCAs[0].Claim == nil {
		t.Errorf("of two entries for one: %+v, %v", s, err)
	}
}
