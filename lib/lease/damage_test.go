package lease

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/journal"
	"gresnet/lib/link"
	"gresnet/lib/lock"
	"gresnet/lib/node"
	"gresnet/lib/step"
)

var (
	idA, idB, idC = node.ID{GUID: "a"}, node.ID{GUID: "b"}, node.ID{GUID: "c"}
	threeHCAs     = []node.HCA{
		{ID: idA, Name: "A", Ports: []node.Port{{Num: 1, Interface: "ibA"}}},
		{ID: idB, Name: "B", Ports: []node.Port{{Num: 1, Interface: "roceB"}, {Num: 2}}},
		{ID: idC, Name: "C"},
	}
)

// lease is what a whole lease of A, B and C has noted, in exclusive mode.
func wholeLease() []noted {
	claim := &step.Claim{HCAs: threeHCAs}
	for _, h := range threeHCAs {
		claim.Claims = append(claim.Claims, lock.Claim{HCA: h.ID, Name: h.Name, Job: 1, Run: "0"})
	}
	steps := []step.Step{claim, &step.Namespace{}} // 1, 2
	for _, h := range threeHCAs {                  // A: 3 to 6, B: 7 to 10, C: 11, 12
		steps = append(steps, &step.Access{ID: h.ID, Name: h.Name})
		i := link.ID{Address: h.Name}
		if h.Ports != nil {
			steps = append(steps, &step.Settings{Of: h.ID, Port: 1, Interface: i, Settings: link.Settings{Name: h.Ports[0].Interface}})
		}
		steps = append(steps, &step.RDMA{ID: h.ID, Name: h.Name})
		if h.Ports != nil {
			steps = append(steps, &step.Link{Of: h.ID, Port: 1, Interface: i, Name: h.Ports[0].Interface})
		}
	}
	steps = append(steps, &step.Devices{}) // 13
	var all []noted
	for n, s := range steps {
		all = append(all, noted{Step: s, number: n + 1})
	}
	return all
}

func TestWhatIsInDoubtIsWhatAMissingNoteMayHaveBeenAbout(t *testing.T) {
	const claims = 1
	tests := []struct {
		lost      []int
		doubted   string
		added     string
		uncertain string // GUIDs of those that are quarantined
	}{
		{[]int{1}, "a", "claim", ""},
		{[]int{2}, "a", "namespace", ""},
		{[]int{3}, "a", "", "a"},
		{[]int{4}, "a", "", "a"},
		{[]int{5}, "a", "rdma A", ""},
		{[]int{6}, "a b", "link ibA", ""},
		{[]int{7}, "a b", "", "b"},
		{[]int{8, 10}, "b c", "", "b"},
		{[]int{9, 10}, "b c", "rdma B,link roceB", ""},
		{[]int{11, 12}, "b c", "rdma C", "c"},
		{[]int{13}, "c", "devices", ""},
		{[]int{7, 8, 9, 10}, "a c b", "rdma B", "b"},
		{[]int{1, 3, 4, 5, 6}, "b", "claim", ""},
		{[]int{9, 10, 11, 12, 13}, "b c", "devices,rdma B,link roceB,rdma C", "c"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.lost), func(t *testing.T) {
			d := without(tt.lost)
			// The table has the claims, if the journal has not.
			d.hcas, d.claims = threeHCAs, wholeLease()[claims-1].Step.(*step.Claim).Claims
			if tt.doubted == "b" { // but not when both are lost
				d.claims = nil
			}
			if got := guids(d.doubted()); got != tt.doubted {
				t.Errorf("in doubt are %q, wanted %q", got, tt.doubted)
			}
			var added []string
			for _, s := range d.added() {
				added = append(added, strings.TrimSpace(s.Kind()+" "+s.Object()))
			}
			if got := strings.Join(added, ","); got != tt.added {
				t.Errorf("added are %q, wanted %q", got, tt.added)
			}
			var uncertain []node.ID
			for id, why := range d.uncertain() {
				uncertain = append(uncertain, id)
				if !strings.HasPrefix(why, "journal damaged: ") {
					t.Errorf("%s: %s", id, why)
				}
			}
			slices.SortFunc(uncertain, node.Compare)
			if got := guids(uncertain); got != tt.uncertain {
				t.Errorf("uncertain are %q, wanted %q", got, tt.uncertain)
			}
		})
	}
}

func TestAnHCAOfWhichNothingIsKnownIsNotCertain(t *testing.T) {
	d := without([]int{5})
	if why := d.uncertain()[idA]; !strings.Contains(why, "which interfaces it had is not known") {
		t.Errorf("A without a record of it: %q", why)
	}
}

// without is the damage of a journal that lacks notes.
func without(lost []int) *damage {
	d := new(damage)
	before := 0
	for _, s := range wholeLease() {
		if slices.Contains(lost, s.number) {
			if g := (journal.Gap{After: before, Why: "a line"}); !slices.Contains(d.gaps, g) {
				d.gaps = append(d.gaps, g)
			}
			continue
		}
		d.all, before = append(d.all, s), s.number
	}
	return d
}

func guids(ids []node.ID) string {
	var list []string
	for _, id := range ids {
		list = append(list, id.GUID)
	}
	return strings.Join(list, " ")
}

func TestAnUplinkWhoseNoteIsMissingIsRemovedAllTheSame(t *testing.T) {
	up := &lock.Uplink{Type: "veth", Address: netip.MustParseAddr("10.8.0.1"), Job: 1, Run: "0"}
	is := func(s noted) bool { return s.Kind() == "uplink" && s.Object() == "veth 10.8.0.1" }
	d := &damage{all: wholeLease(), uplink: up}
	if !slices.ContainsFunc(d.added(), is) {
		t.Errorf("added are %v", d.added())
	}
	d.all = append(d.all, noted{Step: &step.Uplink{Type: "veth", Address: up.Address}, number: 99})
	if slices.ContainsFunc(d.added(), is) {
		t.Errorf("it is noted, and added are %v", d.added())
	}
}
