package part

import (
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/lib/kernel/sysfs"
)

func TestAPKeyOfAPolicyThatAnActivePortLacksIsFoundAndSoIsWhoMayUseTheOthers(t *testing.T) {
	enforced := sysfs.SELinux{Enforcing: true, PKeys: true}
	port := func(state string, keys ...node.PKeyText) report.Port {
		return report.Port{Num: 1, State: state, PKeys: keys}
	}
	for _, c := range []struct {
		part   string
		port   report.Port
		policy node.PKey
		linux  sysfs.SELinux
		want   string
		meant  bool
	}{
		{"pkey", port("ACTIVE", 0xffff, 0x8001), 0x8001, enforced, "", false},
		{"pkey", port("ACTIVE", 0xffff, 0x0001), 0x8001, enforced, "", false},
		{"pkey", port("ACTIVE", 0xffff), 0, enforced, "", false},
		{"pkey", port("DOWN", 0xffff), 0x8001, enforced, "", false},
		{"pkey", port("ACTIVE", 0xffff), 0x8001, enforced, "policy 1 gives jobs P_Key 0x8001, which mlx5_0 port 1 does not have", false},
		{"pkey", port("ACTIVE", 0xffff), 0, sysfs.SELinux{PKeys: true}, "SELinux is not enforcing", true},
		{"pkey", port("ACTIVE", 0xffff), 0, sysfs.SELinux{Enforcing: true}, "the SELinux policy does not have the class infiniband_pkey", true},
		{"macvlan", port("ACTIVE", 0xffff), 0x8001, sysfs.SELinux{}, "", false},
	} {
		cfg := config.Config{HCAs: []config.HCA{{Part: c.part}}, Policies: []config.Policy{{PKey: c.policy}}}
		slot := func(n string) report.HCA {
			return report.HCA{ID: node.ID{PCI: "0000:3b:00.0", Slot: n}, Name: "mlx5_0", Part: c.part, Ports: []report.Port{c.port}}
		}
		all := Problems(cfg, report.Scan{HCAs: []report.HCA{slot("0"), slot("1")}, SELinux: c.linux})
		if len(all) > 1 || (len(all) == 1) != (c.want != "") || c.want != "" && (!strings.Contains(all[0].Error(), c.want) || MayBeMeant(all[0]) != c.meant) {
			t.Errorf("%+v: %v", c, all)
		}
	}
}
