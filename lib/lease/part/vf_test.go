package part

import (
	"errors"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/sriov"
)

func TestOnlyWhatTheSiteSaysOfAVFIsSet(t *testing.T) {
	now := sriov.Attributes{VLAN: &sriov.VLAN{ID: 3, QoS: 5, Proto: sriov.Dot1Q}, Rate: &sriov.Rate{Min: 5, Max: 100}}
	most, no := 5000, false
	for _, c := range []struct {
		wanted config.VF
		want   string
	}{
		{config.VF{}, ""},
		{config.VF{VLAN: &config.VLAN{ID: 100, QoS: 1, Proto: config.Proto8021AD}}, "vlan 100 qos 1 proto 802.1ad"},
		{config.VF{MaxRate: &most, Trust: &no}, "rate from 5 to 5000 Mbit/s, trust false"},
		{config.VF{State: config.LinkEnable}, "state enable"},
		{config.VF{State: config.LinkAuto}, "state auto"},
	} {
		if got := attributes(c.wanted, now).String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// An account has a VLAN, and the job asks for a VF of InfiniBand.
func TestAJobWhoseVFCannotHaveWhatItsAccountGivesIsRefusedAndTheNodeIsNotToBlame(t *testing.T) {
	vlan := config.VF{VLAN: &config.VLAN{ID: 100}}
	err := refuse("vf", takes("ib0", true, "mlx5_core", vlan))
	var refusal *gres.Refusal
	const says = "vf of the site's configuration: ib0 is InfiniBand: VLANs, rates, trust and spoof checks are Ethernet's"
	if !errors.As(err, &refusal) || err.Error() != says {
		t.Errorf("got %v, wanted the refusal: %s", err, says)
	}
	if err := takes("roce0", false, "mlx5_core", vlan); err != nil {
		t.Errorf("a VF that can have it: %v", err)
	}
}
