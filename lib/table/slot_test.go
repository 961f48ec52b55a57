package table_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gresnet/lib/devnode"
	"gresnet/lib/node"
	"gresnet/lib/table"
)

func TestAnHCAAndASlotOfItAreNeverTwoJobs(t *testing.T) {
	a := node.ID{GUID: "a", PCI: "0000:3b:00.0"}
	slot := func(n string) node.ID { return node.ID{GUID: "a", PCI: "0000:3b:00.0", Slot: n} }
	for _, c := range []struct {
		claimed, asked node.ID
		held           bool
	}{
		{a, a, true},
		{a, slot("0"), true},
		{slot("0"), a, true},
		{slot("0"), slot("0"), true},
		{slot("0"), slot("1"), false},
		{node.ID{GUID: "b", Slot: "0"}, slot("0"), false},
		{node.ID{GUID: "b"}, slot("0"), false},
	} {
		held := table.Table{Claims: []table.Claim{{HCA: c.claimed, Job: 1}}}
		if _, is := held.Holder(c.asked); is != c.held {
			t.Errorf("%s is claimed, %s is held: %t", c.claimed, c.asked, is)
		}
	}
}

func TestATableHasTheKeysOfSlotsOnlyWhileJobsHaveSome(t *testing.T) {
	n := table.File{Dir: t.TempDir()}
	slot := node.ID{GUID: "a", Slot: "3"}
	text := func() string {
		text, err := os.ReadFile(filepath.Join(n.Dir, "node.json"))
		must(t, err)
		return string(text)
	}
	must(t, n.Update(t.Context(), func(t *table.Table) error {
		t.HCAs = []node.HCA{{ID: slot.Whole()}}
		t.Claims = []table.Claim{{HCA: slot, Job: 1, Run: "0"}, {HCA: node.ID{GUID: "a", Slot: "4"}, Job: 2, Run: "0"}}
		t.Shared = []table.Shared{{HCA: slot.Whole(), Name: "mlx5_0", Nodes: []devnode.Node{{Kind: "uverbs", Access: devnode.Access{Mode: 0o666}}}}}
		return nil
	}))
	now, err := n.Read()
	must(t, err)
	if hcas, claims := now.Of(1, "0"); len(hcas) != 1 || hcas[0].ID != slot.Whole() || len(claims) != 1 {
		t.Errorf("job 1 has %v, %v", hcas, claims)
	}
	for job := range uint32(2) {
		must(t, n.Update(t.Context(), func(now *table.Table) error {
			now.Release(job+1, "0", nil, nil)
			for _, s := range now.Unshared() {
				now.Unshare(s.HCA)
			}
			return nil
		}))
		if has := strings.Contains(text(), "shared"); has != (job == 0) {
			t.Errorf("after job %d the table is\n%s", job+1, text())
		}
	}
	if strings.Contains(text(), "slot") {
		t.Errorf("the table is\n%s", text())
	}
}
