package part

import (
	"testing"

	"gresnet/lib/words/config"
)

func TestAnInfiniBandPFSetsTheStateAloneAndSomeDriversNoVLANsOf8021AD(t *testing.T) {
	q, ad := config.VF{VLAN: &config.VLAN{ID: 1, Proto: config.Proto8021Q}}, config.VF{VLAN: &config.VLAN{ID: 1, Proto: config.Proto8021AD}}
	for _, c := range []struct {
		infiniband bool
		driver     string
		v          config.VF
		takes      bool
	}{
		{true, "mlx5", config.VF{State: config.LinkEnable}, true},
		{true, "mlx5", q, false},
		{false, "mlx5", ad, true},
		{true, "mlx5", config.VF{Address: config.AddressJob}, true},
		{true, "mlx4", config.VF{Address: config.AddressJob}, false},
		{false, "mlx4", config.VF{Address: config.AddressVF}, true},
		{false, "bnxt_re", q, true},
		{false, "bnxt_re", ad, false},
		{false, "qedr", ad, false},
	} {
		if err := takes("pf", c.infiniband, c.driver, c.v); (err == nil) != c.takes {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
