package recovery

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/lease/step"
	"gresnet/lib/network"
	"gresnet/lib/state/journal"
	"gresnet/lib/words/node"
	"gresnet/test/leasetest"
)

// wholeLease is the journal of a lease of A, B and C.
func wholeLease() (all []Note) {
	for i, s := range leasetest.Steps() {
		all = append(all, Note{Step: s, Number: i + 1})
	}
	return all
}

func TestWhatIsInDoubtIsWhatAMissingNoteMayHaveBeenAbout(t *testing.T) {
	tests := []struct {
		lost      []int
		claims    bool // are in the table, if the journal has them not
		doubted   string
		added     string
		uncertain string // GUIDs of those that are quarantined
	}{
		{[]int{1}, true, "a", "claim", ""},
		{[]int{2}, true, "a", "namespace", ""},
		{[]int{3}, true, "a", "", "a"},
		{[]int{4}, true, "a b", "", "a"},
		{[]int{5}, true, "a b", "", "b"},
		{[]int{6}, true, "b c", "", "b"},
		{[]int{7}, true, "b a c", "", "c"},
		{[]int{8}, true, "c b", "rdma A", ""},
		{[]int{9}, true, "a c", "rdma B", ""},
		{[]int{10}, true, "b a", "rdma C", ""},
		{[]int{11}, true, "c b", "link ibA", ""},
		{[]int{12}, true, "a", "link roceB", ""},
		{[]int{13}, true, "b", "devices", ""},
		{[]int{14}, true, "b", "overlay", ""},
		{[]int{5, 6}, true, "a c b", "", "b"},
		{[]int{4, 5, 6, 7}, true, "a b c", "", "a b c"},
		{[]int{8, 9, 10, 11, 12}, true, "c", "rdma A,link ibA,rdma B,link roceB,rdma C", ""},
		{[]int{5, 6, 9, 12}, true, "a c b", "rdma B", "b"},
		{[]int{1, 11}, false, "a c b", "claim,link ibA", ""},
		{[]int{1, 7, 8}, false, "a b c", "claim,rdma A", "c"},
		{[]int{1, 3, 4, 8, 11}, false, "b c", "claim", ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.lost), func(t *testing.T) {
			d := without(tt.lost)
			d.HCAs = leasetest.HCAs
			if tt.claims {
				d.Claims = wholeLease()[0].Step.(*step.Claim).Claims
			}
			if got := leasetest.GUIDs(d.doubted()); got != tt.doubted {
				t.Errorf("in doubt are %q, wanted %q", got, tt.doubted)
			}
			var added []string
			for _, s := range d.Added() {
				added = append(added, strings.TrimSpace(s.Kind()+" "+s.Object()))
			}
			if got := strings.Join(added, ","); got != tt.added {
				t.Errorf("added are %q, wanted %q", got, tt.added)
			}
			var uncertain []node.ID
			for id, why := range d.Uncertain() {
				uncertain = append(uncertain, id)
				if !strings.HasPrefix(why, "journal damaged: ") {
					t.Errorf("%s: %s", id, why)
				}
			}
			slices.SortFunc(uncertain, node.Compare)
			if got := leasetest.GUIDs(uncertain); got != tt.uncertain {
				t.Errorf("uncertain are %q, wanted %q", got, tt.uncertain)
			}
		})
	}
}

func TestWhatALeaseHasDoneWithIsNotBroughtHomeOnceMore(t *testing.T) {
	// Killed, or failed, while A's RDMA device moved; then all of B and C was undone.
	d := without([]int{9, 10, 11, 12, 13})
	d.HCAs, d.Claims = leasetest.HCAs, wholeLease()[0].Step.(*step.Claim).Claims
	for i, s := range d.Notes {
		d.Notes[i].Struck = s.HCA() == leasetest.B || s.HCA() == leasetest.C
	}
	if got := leasetest.GUIDs(d.own()); got != "a" {
		t.Errorf("of A, B and C, the last two of which are home and free, it has %q still", got)
	}
	if got := leasetest.GUIDs(d.doubted()); strings.Contains(got, "c") || strings.Contains(got, "b") {
		t.Errorf("in doubt are %q", got)
	}
	for _, s := range d.Added() {
		if s.HCA() == leasetest.B || s.HCA() == leasetest.C {
			t.Errorf("added is %s %s", s.Kind(), s.Object())
		}
	}
}

func TestAVFWithoutTheNoteOfWhatItsPFDidIsInDoubt(t *testing.T) {
	id := node.ID{PCI: "0000:3b:00.0", VF: "3"}
	for _, has := range []bool{true, false} {
		notes := []Note{{Step: &step.Namespace{}, Number: 2}, {Step: &step.Access{ID: id, Name: "mlx5_9"}, Number: 3}}
		if has {
			notes = append([]Note{{Step: &step.VF{ID: id, Name: "mlx5_9"}, Number: 1}}, notes...)
		}
		d := Damage{Gaps: []journal.Gap{{Why: "its beginning is lost"}}, Notes: notes, HCAs: []node.HCA{{ID: id, Name: "mlx5_9"}}}
		why := d.Uncertain()[id]
		if want := "what its PF did for it is not known"; strings.HasSuffix(why, want) == has || has && why != "" {
			t.Errorf("with the note, %t: %q", has, why)
		}
	}
}

func TestAnHCAOfWhichNothingIsKnownIsNotCertain(t *testing.T) {
	d := without([]int{5})
	if why := d.Uncertain()[leasetest.A]; !strings.Contains(why, "which interfaces it had is not known") {
		t.Errorf("A without a record of it: %q", why)
	}
}

// without is the damage of a journal that lacks notes.
func without(lost []int) *Damage {
	d := new(Damage)
	before := 0
	for _, s := range wholeLease() {
		if slices.Contains(lost, s.Number) {
			if g := (journal.Gap{After: before, Why: "a line"}); !slices.Contains(d.Gaps, g) {
				d.Gaps = append(d.Gaps, g)
			}
			continue
		}
		d.Notes, before = append(d.Notes, s), s.Number
	}
	return d
}

func TestAnUplinkWhoseNoteIsMissingIsRemovedAllTheSame(t *testing.T) {
	up := &network.Uplink{Type: "veth", Address: netip.MustParseAddr("10.8.0.1")}
	is := func(s Note) bool { return s.Kind() == "uplink" && s.Object() == "veth 10.8.0.1" }
	d := &Damage{Notes: wholeLease(), Uplink: up}
	if !slices.ContainsFunc(d.Added(), is) {
		t.Errorf("added are %v", d.Added())
	}
	d.Notes = append(d.Notes, Note{Step: &network.Uplink{Type: "veth", Address: up.Address}, Number: 99})
	if slices.ContainsFunc(d.Added(), is) {
		t.Errorf("it is noted, and added are %v", d.Added())
	}
}
