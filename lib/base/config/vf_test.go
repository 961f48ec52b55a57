package config_test

import (
	"fmt"
	"reflect"
	"testing"

	"gresnet/lib/base/config"
)

const parts = "[[hca]]\nindex = 0\npart = \"vf\"\ncount = 2\nmatch = \"pci=3b:00.0\"\n"

func TestWhatIsSaidOfAVFIsKeptAndTheRestIsNil(t *testing.T) {
	text := parts + "vf = {vlan = 100, qos = 3, proto = \"802.1ad\", min_rate = 0, trust = false, state = \"enable\"}\n"
	text += "[[policy]]\naccount = \"physics\"\nvf = {vlan = 7, max_rate = 5000, spoof_check = true}\n"
	c, err := config.Parse([]byte(text), "f")
	if err != nil {
		t.Fatal(err)
	}
	none, most, no, yes := 0, 5000, false, true
	site := config.VF{VLAN: &config.VLAN{ID: 100, QoS: 3, Proto: "802.1ad"}, MinRate: &none, Trust: &no, State: "enable"}
	policy := config.VF{VLAN: &config.VLAN{ID: 7, Proto: "802.1q"}, MaxRate: &most, SpoofCheck: &yes}
	both := config.VF{VLAN: policy.VLAN, MinRate: &none, MaxRate: &most, SpoofCheck: &yes, Trust: &no, State: "enable"}
	if !reflect.DeepEqual(c.HCAs[0].VF, site) || !reflect.DeepEqual(c.Policies[0].VF, policy) || !reflect.DeepEqual(policy.Or(site), both) {
		t.Errorf("got %+v and %+v", c.HCAs[0].VF, c.Policies[0].VF)
	}
	for _, v := range []config.VF{site, policy, both, {}} {
		again, err := config.Parse([]byte(parts+"vf = "+v.String()+"\n"), "f")
		if err != nil || !reflect.DeepEqual(again.HCAs[0].VF, v) {
			t.Errorf("%s is read as %+v, %v", v, again.HCAs, err)
		}
	}
	if !c.Policies[0].Silent {
		t.Error("the policy says what the job gets")
	}
}

func TestErrorsOfAVFNameTheKeyAndItsTablesLine(t *testing.T) {
	for _, c := range []struct{ vf, err string }{
		{"vlan = 4095", "vlan: 4095 is not from 0 to 4094"},
		{"vlan = -1", "vlan: -1 is not from 0 to 4094"},
		{"vlan = \"100\"", "vlan: is not a number"},
		{"vlan = 1, qos = 8", "qos: 8 is not from 0 to 7"},
		{"qos = 1", "qos: there is no vlan"},
		{"proto = \"802.1q\"", "proto: there is no vlan"},
		{"vlan = 1, proto = \"qinq\"", `proto: "qinq" is not one of "802.1q", "802.1ad"`},
		{"min_rate = 10, max_rate = 9", "min_rate: 10 is more than max_rate, 9"},
		{"max_rate = 10000001", "max_rate: 10000001 is not from 0 to 10000000"},
		{"trust = 1", "trust: is not true or false"},
		{"state = \"disable\"", `state: "disable" is not one of "auto", "enable"`},
	} {
		_, err := config.Parse([]byte(parts+"vf = {"+c.vf+"}\n"), "f")
		if want := "f:6: hca.vf." + c.err; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", c.vf, err, want)
		}
		_, err = config.Parse([]byte(fmt.Sprintf("[[policy]]\nvf = {%s}\n", c.vf)), "f")
		if want := "f:2: policy.vf." + c.err; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", c.vf, err, want)
		}
	}
	_, err := config.Parse([]byte("[[hca]]\nindex = 0\nmatch = \"pci=3b:00.0\"\nvf = {vlan = 1}\n"), "f")
	if want := "f:4: hca.vf: the HCA is no PF in parts"; err == nil || err.Error() != want {
		t.Errorf("a whole HCA: %v, want %s", err, want)
	}
}
