package nft

import (
	"strings"
	"testing"

	"gresnet/test/netnstest"
)

func TestAChainThatDropsWhatTheNodesProgramsSendIsNamed(t *testing.T) {
	const output = "table inet f { chain refuse { reject; }; chain c { type filter hook output priority 0; "
	for rules, want := range map[string]string{
		"": "",
		"table ip f { chain c { type filter hook forward priority 0; policy drop; }; }":   "",
		output + "ip daddr 10.0.0.1 accept; }; }":                                         "",
		output + "ip daddr 10.0.0.1 drop; }; }":                                           "f c",
		output + "ip daddr 10.0.0.1 meta skuid != 0 jump refuse; }; }":                    "f c",
		output + "policy drop; }; }":                                                      "f c",
		"table ip6 f { chain c { type filter hook output priority 0; policy drop; }; }":   "",
		"iptables-nft -A OUTPUT -d 169.254.169.254 -m owner ! --uid-owner root -j REJECT": "filter OUTPUT",
	} {
		ns := netnstest.New(t)
		if strings.HasPrefix(rules, "iptables") {
			ns.Run(rules)
		} else if rules != "" {
			ns.Run("nft '" + rules + "'")
		}
		var got []string
		if err := ns.Do(func() (err error) { got, err = OutputDrops(); return err }); err != nil || strings.Join(got, ", ") != want {
			t.Errorf("%q: %q, %v, want %q", rules, got, err, want)
		}
	}
}
