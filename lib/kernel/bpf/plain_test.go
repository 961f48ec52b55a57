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

func TestAnUplinksFilterPassesPlainIPv4Alone(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to load BPF programs")
	}
	const (
		macs    = "0a67c61380fe0667 c61380fe"
		from    = "c61380fe"
		source  = "fd000000000000000000000000000001"
		request = "0806 0001 0800 06 04 0001 0667c61380fe" + from + "000000000000"
		v6      = "86dd 60000000 0014 06 40" + source
		tail    = "0000 0000 0000 0000 0000 0000 0000 0000 0000 0000"
	)
	between := func(head, from, to string) string {
		return macs + "0800" + head + "000028 0000 4000 40 06 0000" + from + to + tail
	}
	to := func(head, address string) string { return between(head, from, address) }
	for _, c := range []struct {
		name, frame string
		passes      bool
	}{
		{"IPv4", to("45", "0a080000"), true},
		{"broadcast", to("45", "ffffffff"), true},
		{"a loopback address", to("45", "7f000035"), false},
		{"the address before", to("45", "7effffff"), true},
		{"another job's address", between("45", "c61380ff", "0a080000"), false},
		{"an HCA's address", between("45", "0a0080fe", "0a080000"), false},
		{"the loopback's own", between("45", "7f000001", "0a080000"), false},
		{"IP options", to("46", "0a080000"), false},
		{"no head", to("44", "0a080000"), false},
		{"IPv6 in an IPv4 frame", to("60", "0a080000"), false},
		{"ARP", macs + request + "0a080000", true},
		{"IPv6", macs + v6 + source + tail, false},
		{"a VLAN's", macs + "8100 0005" + strings.TrimPrefix(to("45", "0a080000"), macs), false},
	} {
		f, err := NewPlain(netip.MustParseAddr("198.19.128.254"))
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
