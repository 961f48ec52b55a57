package inet

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netlink"
	"gresnet/test/messagetest"
)

func FuzzRules(f *testing.F) {
	f.Add(netlink.AppendText(make([]byte, ruleHead), unix.FRA_OIFNAME, "hca0"))
	i := Interface{Name: "hca0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	messagetest.Fuzz(f, cleanRule, func(m Rule, _ int) []byte { return m }, func(m Rule) { _ = m.String(); m.concerns(i); m.IsOwn() })
}
