package environment_test

import (
	"testing"

	"gresnet/lib/lease/environment"
	"gresnet/lib/words/config"
	"gresnet/lib/words/pkey"
)

// in returns an HCA in a partition, which each of its ports has at an index.
func in(h environment.HCA, k pkey.PKey, indices ...int) environment.HCA {
	h.Slot = true
	for i, index := range indices {
		h.Ports[i].PKey = &pkey.Entry{Index: index, PKey: k}
	}
	return h
}

func TestAVariableForAPartitionIsThereIfOneValueServesAllPorts(t *testing.T) {
	first := in(ib("mlx5_3", "ibs3"), 0x8001, 2)
	for _, c := range []struct {
		name                  string
		hcas                  []environment.HCA
		gresnet, index, value string
	}{
		{"no partition", []environment.HCA{ib("mlx5_3", "ibs3")}, "", "", ""},
		{"one HCA", []environment.HCA{first}, "0x8001", "2", "0x0001"},
		{"two slots of one HCA", []environment.HCA{first, first}, "0x8001", "2", "0x0001"},
		{"a limited member", []environment.HCA{in(ib("mlx5_3", ""), 0x0001, 2)}, "0x0001", "2", "0x0001"},
		{"the same place", []environment.HCA{first, in(ib("mlx5_7", ""), 0x8001, 2)}, "0x8001,0x8001", "2", "0x0001"},
		{"another place", []environment.HCA{first, in(ib("mlx5_7", ""), 0x8001, 3)}, "0x8001,0x8001", "", "0x0001"},
		{"another partition", []environment.HCA{first, in(ib("mlx5_7", ""), 0x8002, 2)}, "0x8001,0x8002", "2", ""},
		{"a whole HCA beside it", []environment.HCA{first, ib("mlx5_7", "")}, "0x8001,none", "", ""},
		{"another place on a second port", []environment.HCA{in(dual(ib("mlx5_3", ""), true), 0x8001, 2, 5)}, "0x8001", "", "0x0001"},
		{"a second port that is down", []environment.HCA{in(dual(ib("mlx5_3", ""), false), 0x8001, 2)}, "0x8001", "2", "0x0001"},
	} {
		got := map[string]string{}
		for _, v := range environment.Of(c.hcas, []string{config.NCCLPKey, config.UCXPKey, config.OpenIBPKey}) {
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
