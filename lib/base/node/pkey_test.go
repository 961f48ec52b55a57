package node_test

import (
	"testing"

	"gresnet/lib/base/node"
)

func TestAPartitionIsFoundAtItsFullMembersEntryOrElseAtTheFirst(t *testing.T) {
	table := []node.PKey{0xffff, 0x0002, 0, 0x8001, 0x7fff, 0x0001, 0x8001, 0x8002, 0x0003, 0x0003}
	for k, want := range map[node.PKey]node.PKeyEntry{
		0x8001: {3, 0x8001},
		0x0001: {3, 0x8001},
		0x7fff: {0, 0xffff},
		0xffff: {0, 0xffff},
		0x8002: {7, 0x8002},
		0x8003: {8, 0x0003},
	} {
		if got, is := node.FindPKey(table, k); !is || got != want {
			t.Errorf("%s: got %+v, %t, want %+v", k, got, is, want)
		}
	}
	if got, is := node.FindPKey(table, 0x8004); is {
		t.Errorf("found %+v", got)
	}
	for _, k := range []node.PKey{0, 0x8000} {
		if k.IsOne() {
			t.Errorf("%s is one", k)
		}
	}
}
