package lease

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gresnet/lib/config"
	"gresnet/lib/job"
	"gresnet/lib/journal"
	"gresnet/lib/link"
	"gresnet/lib/lock"
	"gresnet/lib/node"
	"gresnet/lib/plan"
	"gresnet/lib/rdma"
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

// wholeLease is what a lease of A, B and C has noted, in exclusive mode.
func wholeLease() []noted {
	claim := &step.Claim{HCAs: threeHCAs}
	var hcas []plan.HCA
	for _, h := range threeHCAs {
		claim.Claims = append(claim.Claims, lock.Claim{HCA: h.ID, Name: h.Name, Job: 1, Run: "0"})
		taken := plan.HCA{ID: h.ID, Name: h.Name, Access: &step.Access{ID: h.ID, Name: h.Name}}
		if h.Ports != nil {
			taken.Interfaces = []*step.Settings{{
				Of: h.ID, Port: 1, Interface: link.ID{Address: h.Name}, Settings: link.Settings{Name: h.Ports[0].Interface},
			}}
		}
		hcas = append(hcas, taken)
	}
	// 1 is the claim, 2 the namespace; 3 access A, 4 settings, 5 access B, 6 settings,
	// 7 access C; 8 rdma A, 9 rdma B, 10 link A, 11 rdma C, 12 link B; 13 the devices.
	// 14 is the overlay, whose place among them is of no matter.
	steps := append([]step.Step{claim}, plan.Take(job.Job{}, rdma.Exclusive, config.Access{}, nil, nil, hcas)...)
	steps = append(steps, &step.Overlay{})
	var all []noted
	for n, s := range steps {
		all = append(all, noted{Step: s, number: n + 1})
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
		{[]int{9}, true, "a", "rdma B", ""},
		{[]int{10}, true, "b c", "link ibA", ""},
		{[]int{11}, true, "a b", "rdma C", ""},
		{[]int{12}, true, "c", "link roceB", ""},
		{[]int{13}, true, "b", "devices", ""},
		{[]int{14}, true, "b", "overlay", ""},
		{[]int{5, 6}, true, "a c b", "", "b"},
		{[]int{4, 5, 6, 7}, true, "a b c", "", "a b c"},
		{[]int{8, 9, 10, 11, 12}, true, "c", "rdma A,link ibA,rdma B,link roceB,rdma C", ""},
		{[]int{5, 6, 9, 12}, true, "a c b", "rdma B", "b"},
		{[]int{1, 10}, false, "a b c", "claim,link ibA", ""},
		{[]int{1, 7, 8}, false, "a b c", "claim,rdma A", "c"},
		{[]int{1, 3, 4, 8, 10}, false, "b c", "claim", ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.lost), func(t *testing.T) {
			d := without(tt.lost)
			d.hcas = threeHCAs
			if tt.claims {
				d.claims = wholeLease()[0].Step.(*step.Claim).Claims
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

func TestWhatALeaseHasDoneWithIsNotBroughtHomeOnceMore(t *testing.T) {
	// Killed, or failed, while A's RDMA device moved; then all of B and C was undone.
	d := without([]int{9, 10, 11, 12, 13})
	d.hcas, d.claims = threeHCAs, wholeLease()[0].Step.(*step.Claim).Claims
	for i, s := range d.all {
		d.all[i].struck = s.HCA() == idB || s.HCA() == idC
	}
	if got := guids(d.own()); got != "a" {
		t.Errorf("of A, B and C, the last two of which are home and free, it has %q still", got)
	}
	if got := guids(d.doubted()); strings.Contains(got, "c") || strings.Contains(got, "b") {
		t.Errorf("in doubt are %q", got)
	}
	for _, s := range d.added() {
		if s.HCA() == idB || s.HCA() == idC {
			t.Errorf("added is %s %s", s.Kind(), s.Object())
		}
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

func TestMovesAreUndoneAsTheyWereDoneUnlessANoteIsMissing(t *testing.T) {
	const last = "settings ibA, settings roceB, access A, access B, access C, devices, namespace, claim"
	for whole, moves := range map[bool]string{
		true:  "overlay, rdma A, rdma B, link ibA, rdma C, link roceB, ",
		false: "overlay, rdma A, rdma B, rdma C, link ibA, link roceB, ",
	} {
		notes := wholeLease()
		sortForUndo(notes, whole)
		var got []string
		for _, s := range notes {
			got = append(got, strings.TrimSpace(s.Kind()+" "+s.Object()))
		}
		if got := strings.Join(got, ", "); got != moves+last {
			t.Errorf("whole %v:\ngot  %s\nwant %s", whole, got, moves+last)
		}
	}
}

func TestAnHCAIsNotFreedWhileTheJournalGivesItToTheLease(t *testing.T) {
	book, err := journal.Create(filepath.Join(t.TempDir(), "journal"), journal.Header{Job: 1, Run: "0"})
	if err != nil {
		t.Fatal(err)
	}
	l := &open{journal: book, look: look{node: &Node{Now: time.Now, Log: func(Event) {}}, world: &step.World{Given: step.Given{Job: 1}, Outcome: step.Outcome{Away: map[node.ID]string{idC: "it is away"}}}}}
	all := wholeLease()
	for i := range all {
		if err := l.note(all[i].Step); err != nil {
			t.Fatal(err)
		}
	}
	book.Close() // from now on nothing can be written
	for _, s := range all {
		if s.HCA() == idA || s.HCA() == idC {
			l.markUndone(s)
		}
	}
	l.shorten(all[0])
	if failed := l.keepUnstruck(); len(failed) != 1 || !strings.Contains(l.world.Away[idA], "the journal still says that the job has it") {
		t.Errorf("A is not kept: %v, %q", failed, l.world.Away[idA])
	}
	if _, kept := l.world.Away[idB]; kept || l.world.Away[idC] != "it is away" {
		t.Errorf("kept besides: %v", l.world.Away)
	}
}
