package bpf

import (
	"encoding/hex"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"gresnet/test/netnstest"
)

func TestAnUplinksFilterPassesWhatGoesToItsNetworksAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to load BPF programs")
	}
	const (
		macs    = "0a670a0800010667 0a080001"
		from    = "0a080001"
		source  = "fd000000000000000000000000000001"
		request = "0806 0001 0800 06 04 0001 06670a080001" + from + "000000000000"
		v6      = "86dd 60000000 0014 06 40" + source
		tail    = "0000 0000 0000 0000 0000 0000 0000 0000 0000 0000"
	)
	to := func(head, address string) string {
		return macs + "0800" + head + "000028 0000 4000 40 06 0000" + from + address + tail
	}
	for _, c := range []struct {
		name, frame string
		networks    []string
		passes      bool
	}{
		{"the gateway", to("45", "0a080000"), []string{"10.8.0.0/32"}, true},
		{"the gateway's neighbor", to("45", "0a080001"), []string{"10.8.0.0/32"}, false},
		{"the last of a network", to("45", "c0a8ffff"), []string{"10.8.0.0/32", "192.168.0.0/16"}, true},
		{"behind a network", to("45", "c0a90000"), []string{"10.8.0.0/32", "192.168.0.0/16"}, false},
		{"before a network", to("45", "c0a7ffff"), []string{"10.8.0.0/32", "192.168.0.0/16"}, false},
		{"the upper half", to("45", "c0a80180"), []string{"192.168.1.128/25"}, true},
		{"the lower half", to("45", "c0a8017f"), []string{"192.168.1.128/25"}, false},
		{"all the world", to("45", "08080808"), []string{"0.0.0.0/0"}, true},
		{"half the world", to("45", "ff000001"), []string{"128.0.0.0/1"}, true},
		{"the other half", to("45", "7f000001"), []string{"128.0.0.0/1"}, false},
		{"a network that is written by a host", to("45", "0a080105"), []string{"10.8.1.4/24"}, true},
		{"broadcast", to("45", "ffffffff"), []string{"10.8.0.0/32"}, false},
		{"IP options", to("46", "0a080000"), []string{"0.0.0.0/0"}, false},
		{"no head", to("44", "0a080000"), []string{"0.0.0.0/0"}, false},
		{"IPv6 in an IPv4 frame", to("60", "0a080000"), []string{"0.0.0.0/0"}, false},
		{"ARP for the gateway", macs + request + "0a080000", []string{"10.8.0.0/32"}, true},
		{"ARP for another", macs + request + "0a080001", []string{"10.8.0.0/32"}, false},
		{"half an ARP", macs + request, []string{"0.0.0.0/0"}, false},
		{"IPv6", macs + v6 + source + tail, []string{"0.0.0.0/0"}, false},
		{"a VLAN's", macs + "8100 0005" + strings.TrimPrefix(to("45", "0a080000"), macs), []string{"0.0.0.0/0"}, false},
		{"none of a thousand", to("45", "0a080000"), many("192.168.0.0/32", 1000), false},
		{"the last of a hundred thousand", to("45", "0a080000"), append(many("192.168.0.0/32", 100000), "10.8.0.0/32"), true},
	} {
		var networks []netip.Prefix
		for _, n := range c.networks {
			networks = append(networks, netip.MustParsePrefix(n))
		}
		f, err := NewReach(networks)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		defer f.Close()
		frame, err := hex.DecodeString(strings.ReplaceAll(c.frame, " ", ""))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		p, err := ebpf.NewProgramFromFD(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		verdict, _, err := p.Test(frame)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if passes := verdict == pass; passes != c.passes || verdict != pass && verdict != drop {
			t.Errorf("%s: verdict %d, passes ought to be %t", c.name, verdict, c.passes)
		}
	}
}

// many is a list of one network.
func many(network string, count int) []string {
	return strings.Fields(strings.Repeat(network+" ", count))
}
