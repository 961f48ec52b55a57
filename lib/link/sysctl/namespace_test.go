package sysctl

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestWhatANewNamespaceHasIsReadOnlyAsItWasWritten(t *testing.T) {
	fresh := Fresh{[]string{"core/somaxconn", "ipv4/tcp_rmem", "ipv4/ip_local_reserved_ports"},
		Values{"core/somaxconn": "4096", "ipv4/tcp_rmem": "1\t2\t3", "ipv4/ip_local_reserved_ports": ""}, validity()}
	text := fresh.String()
	if again, good := ParseFresh(text); !good || !maps.Equal(again.Values, fresh.Values) || !slices.Equal(again.Keys, fresh.Keys) {
		t.Fatalf("%q is read as %v, %t", text, again, good)
	}
	for _, valid := range []string{"another boot" + fresh.valid, fresh.valid + " sctp"} {
		other := fresh
		other.valid = valid
		if _, good := ParseFresh(other.String()); good {
			t.Errorf("it is good for %q", valid)
		}
	}
	for i := range text {
		for _, damaged := range []string{text[:i], text[:i] + text[i+1:], text[:i] + "7" + text[i+1:]} {
			if _, good := ParseFresh(damaged); good && damaged != text {
				t.Errorf("%q is good", damaged)
			}
		}
	}
	if _, good := ParseFresh(strings.Repeat("x\n", 9)); good {
		t.Error("nonsense is good")
	}
}
