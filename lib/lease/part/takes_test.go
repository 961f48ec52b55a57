package part

import (
	"testing"

	"gresnet/lib/base/config"
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
		{false, "bnxt_re", q, true},
		{false, "bnxt_re", ad, false},
		{false, "qedr", ad, false},
	} {
		if err := takes("pf", c.infiniband, c.driver, c.v); (err == nil) != c.takes {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAVFOfAPFInSwitchdevModeTakesAVLANAlone(t *testing.T) {
	vlan := func(qos int, proto string) *config.VLAN { return &config.VLAN{ID: 100, QoS: qos, Proto: proto} }
	for _, c := range []struct {
		vf    config.VF
		takes bool
	}{
		{config.VF{}, true},
		{config.VF{VLAN: vlan(0, config.Proto8021Q)}, true},
		{config.VF{VLAN: &config.VLAN{Proto: config.Proto8021Q}}, true},
		{config.VF{VLAN: vlan(3, config.Proto8021Q)}, false},
		{config.VF{VLAN: vlan(0, config.Proto8021AD)}, false},
		{config.VF{VLAN: vlan(0, config.Proto8021Q), MaxRate: new(100)}, false},
		{config.VF{SpoofCheck: new(false)}, false},
		{config.VF{Trust: new(false)}, false},
		{config.VF{State: config.LinkEnable}, false},
	} {
		if err := takesInSwitchdev("0000:3b:00.0", c.vf); (err == nil) != c.takes {
			t.Errorf("%+v: %v", c.vf, err)
		}
	}
}
