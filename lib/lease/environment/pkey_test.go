package environment

import (
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
)

// in returns an HCA in a partition, which each of its ports has at an index.
func in(h hca, k node.PKey, indices ...int) hca {
	h.Slot = true
	for i, index := range indices {
		h.Ports[i].PKey = &node.PKeyEntry{Index: index, PKey: k}
	}
	return h
}

func TestAVariableForAPartitionIsThereIfOneValueServesAllPorts(t *testing.T) {
	first := in(ib("mlx5_3", "ibs3"), 0x8001, 2)
	for _, c := range []struct {
		name                  string
		hcas                  []hca
		gresnet, index, value string
	}{
		{"no partition", []hca{ib("mlx5_3", "ibs3")}, "", "", ""},
		{"one HCA", []hca{first}, "0x8001", "2", "0x0001"},
		{"two slots of one HCA", []hca{first, first}, "0x8001", "2", "0x0001"},
		{"a limited member", []hca{in(ib("mlx5_3", ""), 0x0001, 2)}, "0x0001", "2", "0x0001"},
		{"the same place", []hca{first, in(ib("mlx5_7", ""), 0x8001, 2)}, "0x8001,0x8001", "2", "0x0001"},
		{"another place", []hca{first, in(ib("mlx5_7", ""), 0x8001, 3)}, "0x8001,0x8001", "", "0x0001"},
		{"another partition", []hca{first, in(ib("mlx5_7", ""), 0x8002, 2)}, "0x8001,0x8002", "2", ""},
		{"a whole HCA beside it", []hca{first, ib("mlx5_7", "")}, "0x8001,none", "", ""},
		{"another place on a second port", []hca{in(dual(ib("mlx5_3", ""), true), 0x8001, 2, 5)}, "0x8001", "", "0x0001"},
		{"a second port that is down", []hca{in(dual(ib("mlx5_3", ""), false), 0x8001, 2)}, "0x8001", "2", "0x0001"},
	} {
		got := map[string]string{}
		for _, v := range variablesOf(c.hcas, []string{config.NCCLPKey, config.UCXPKey, config.OpenIBPKey}) {
			got[v.Name] = v.Value
		}
		for name, want := range map[string]string{
			"GRESNET_PKEY": c.gresnet, "NCCL_IB_PKEY": c.index, "UCX_IB_PKEY": c.value, "OMPI_MCA_btl_openib_pkey": c.value,
		} {
			if value, is := got[name]; value != want || is != (want != "") {
				t.Errorf("%s: %s=%s, want %q", c.name, name, value, want)
			}
		}
	}
}
