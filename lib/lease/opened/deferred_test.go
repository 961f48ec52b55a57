package opened

import (
	"os"
	"testing"
	"time"

	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/state/journal"
	"gresnet/lib/state/table"
	"gresnet/lib/words/node"
	"gresnet/test/leasetest"
)

// A prolog has claimed B and C and noted none of their interfaces, or one. An interface of A, which is on the node, is not
// one of theirs; of an interface that is on no HCA of the node nobody knows.
func TestAPrologThatHasNotNotedAllHasTheInterfacesOfWhatItClaimedAlone(t *testing.T) {
	h := emptyHost(t)
	leasetest.Write(t, h.State, 2, time.Hour, nil)
	claims := &table.Table{Claims: []table.Claim{{HCA: leasetest.B, Job: 2}, {HCA: leasetest.C, Job: 2}}}
	one := &journal.Journal{Notes: []journal.Note{{Kind: "access"}, {Kind: "settings"}}}
	for _, book := range []*journal.Journal{{}, one} {
		for here, want := range map[node.ID]node.ID{leasetest.A: {}, leasetest.B: leasetest.B, leasetest.C: leasetest.C, {}: leasetest.B} {
			hca, may, err := mayNote(h, claims, 2, book, func() (node.ID, error) { return here, nil })
			if err != nil || hca != want || may != (want != node.ID{}) {
				t.Errorf("an interface of %q: %q, %t, %v", here.GUID, hca.GUID, may, err)
			}
		}
	}
	all := &journal.Journal{Notes: append(one.Notes, journal.Note{Kind: "link"})}
	if hca, may, err := mayNote(h, claims, 2, all, nil); may || err != nil {
		t.Errorf("a prolog that moves has an interface that it has not noted, of %q: %v", hca.GUID, err)
	}
	if err := os.WriteFile(h.State.Lease(2).Env(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if hca, may, err := mayNote(h, claims, 2, one, nil); may || err != nil {
		t.Errorf("a job that has its lease has an interface that it never noted, of %q: %v", hca.GUID, err)
	}
}

// The prolog with the lower number has noted nothing; the other one has noted the interface, which is away.
func TestAnInterfaceIsOfTheLeaseThatHasNotedItAndOfNoneThatMayHaveIt(t *testing.T) {
	h := emptyHost(t)
	leasetest.Write(t, h.State, 2, time.Hour, nil)
	leasetest.Write(t, h.State, 9, time.Hour, []node.ID{leasetest.B})
	book, err := journal.Open(h.State.Lease(9).Journal())
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if err := book.Note("settings", &step.Settings{Of: leasetest.B, Interface: link.ID{Address: "B"}}); err != nil {
		t.Fatal(err)
	}
	err = h.Table().Update(t.Context(), func(now *table.Table) error {
		now.Claims = []table.Claim{{HCA: leasetest.A, Job: 2, Run: "0"}, {HCA: leasetest.B, Job: 9, Run: "0"}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w := h.World(t.Context(), nil, h.State.Lease(4), 4)
	hca, leased, err := leasedTo(h, w, link.ID{Address: "B"}, func() (node.ID, error) { return node.ID{}, nil })
	if err != nil || !leased || hca != leasetest.B {
		t.Errorf("it is %q's, leased %t: %v", hca.GUID, leased, err)
	}
}
