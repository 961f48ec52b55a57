package recovery

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"gresnet/lib/journal"
	"gresnet/lib/node"
	"gresnet/lib/step"
	"gresnet/lib/table"
	"gresnet/test/leasetest"
)

// bookOf is the journal of a whole lease, less some notes.
func bookOf(t *testing.T, lost ...int) Book {
	t.Helper()
	b := Book{Journal: new(journal.Journal), Job: 1}
	for _, s := range wholeLease() {
		data, err := json.Marshal(s.Step)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(lost, s.Number) {
			b.Notes = append(b.Notes, journal.Note{Number: s.Number, Kind: s.Kind(), Data: data})
		}
	}
	return b
}

func TestAJournalGivesTheTableItsClaimsAgain(t *testing.T) {
	var now table.Table
	whole := wholeLease()[0].Step.(*step.Claim)
	if !bookOf(t).Claim(&now) {
		t.Error("a whole journal does not say what its lease holds")
	}
	if !slices.Equal(now.Claims, whole.Claims) || len(now.HCAs) != 3 || now.HCAs[1].Ports[0].Interface != "roceB" {
		t.Errorf("table %+v", now)
	}
	// Another journal's claim of the same HCA is an older one.
	aside := bookOf(t)
	aside.Aside, aside.Job = true, 2
	if !aside.Claim(&now) || !slices.Equal(now.Claims, whole.Claims) {
		t.Errorf("table %+v", now)
	}
	now = table.Table{}
	if aside.Claim(&now); len(now.Claims) != 3 || !now.Claims[0].Doubt || now.Claims[0].Quarantined == "" {
		t.Errorf("of a lease that was set aside: %+v", now.Claims)
	}
}

// A prolog can make its lease first and claim last. test/model found it: LATER_CLAIM_WINS.
func TestAnHCAIsTheJobsThatClaimedItLastWhoseverLeaseIsTheYounger(t *testing.T) {
	wall := func(at int64) table.Claim { return table.Claim{Since: time.Unix(at, 0)} }
	both := func(at int64, boot time.Duration) table.Claim {
		return table.Claim{Since: time.Unix(at, 0), Made: boot}
	}
	tests := map[string]struct{ freed, has table.Claim }{
		"the wall clock tells":            {wall(1), wall(2)},
		"somebody has set it back":        {both(2, time.Second), both(1, 2*time.Second)},
		"an older program made the first": {wall(1), both(2, time.Second)},
		"an older program made the last":  {both(1, time.Second), wall(2)},
	}
	for name, tt := range tests {
		freed, has := claimedBy(t, 1, tt.freed), claimedBy(t, 2, tt.has)
		for _, books := range [][]Book{{freed, has}, {has, freed}} {
			var now table.Table
			for _, b := range books {
				b.Claim(&now)
			}
			for _, c := range now.Claims {
				if c.Job != 2 {
					t.Errorf("%s: %s is job %d's", name, c.Name, c.Job)
				}
			}
			if len(now.Claims) != 3 {
				t.Errorf("%s: table %+v", name, now)
			}
		}
	}
}

// test/model found it: WHOLE_AND_SLOTS_OVERLAP and SET_ASIDE_KEEPS_ACCESS. One job's prolog was killed
// after its note of a claim; another job has the HCA by now.
func TestOfAnHCAAndASlotOfItTheOneThatWasClaimedLastIsInATableMadeAnew(t *testing.T) {
	hca := node.ID{GUID: "a", PCI: "0000:3b:00.0"}
	slot := hca
	slot.Slot = "0"
	shared := []table.Shared{{HCA: hca, Name: "mlx5_0"}}
	book := func(job uint32, id node.ID, made time.Duration, aside bool) Book {
		claim := step.Claim{HCAs: []node.HCA{{ID: hca}}, Claims: []table.Claim{{HCA: id, Job: job, Run: "0"}}, Made: made}
		if id.Slot != "" {
			claim.Shared = shared
		}
		data, err := json.Marshal(&claim)
		if err != nil {
			t.Fatal(err)
		}
		return Book{Job: job, Aside: aside, Journal: &journal.Journal{Notes: []journal.Note{{Number: 1, Kind: claim.Kind(), Data: data}}}}
	}
	for name, tt := range map[string]struct {
		books  []Book
		job    uint32 // that has it
		opened int    // who could open its device nodes is known
	}{
		"the whole was claimed last":   {[]Book{book(1, slot, 1, false), book(2, hca, 2, false)}, 2, 0},
		"the slot was claimed last":    {[]Book{book(1, slot, 2, false), book(2, hca, 1, false)}, 1, 1},
		"the slot's lease is aside":    {[]Book{book(1, slot, 1, true)}, 1, 1},
		"and the whole is another's":   {[]Book{book(2, hca, 2, false), book(1, slot, 1, true)}, 2, 0},
		"and another has another slot": {[]Book{book(2, node.ID{GUID: "a", PCI: hca.PCI, Slot: "1"}, 2, false), book(1, slot, 1, true)}, 0, 1},
	} {
		for range 2 {
			slices.Reverse(tt.books)
			if tt.books[0].Aside && len(tt.books) > 1 {
				continue // those that are aside come last
			}
			var now table.Table
			if err := Rebuild(&now, tt.books, func(*table.Table) error { return nil }, time.Now); err != nil {
				t.Fatal(err)
			}
			if tt.job != 0 && (len(now.Claims) != 1 || now.Claims[0].Job != tt.job) {
				t.Errorf("%s: claims %+v", name, now.Claims)
			}
			if len(now.Shared) != tt.opened {
				t.Errorf("%s: shared %+v", name, now.Shared)
			}
		}
	}
}

// claimedBy returns the journal of a job that made its claims when at was made.
func claimedBy(t *testing.T, job uint32, at table.Claim) Book {
	t.Helper()
	b := bookOf(t)
	b.Job = job
	claim := *wholeLease()[0].Step.(*step.Claim)
	claim.Claims = slices.Clone(claim.Claims)
	for i := range claim.Claims {
		c := &claim.Claims[i]
		c.Job, c.Since = job, at.Since
	}
	claim.Made = at.Made
	data, err := json.Marshal(&claim)
	if err != nil {
		t.Fatal(err)
	}
	b.Notes[0].Data = data
	return b
}

func TestAJournalWhoseClaimIsStruckHoldsNothing(t *testing.T) {
	var now table.Table
	b := bookOf(t)
	b.Notes[0].Struck = true
	if !b.Claim(&now) || len(now.Claims) != 0 {
		t.Errorf("table %+v", now)
	}
}

func TestAJournalWithoutItsClaimSaysNotAllButKeepsNumbers(t *testing.T) {
	var now table.Table
	b := bookOf(t, 1)
	if b.Claim(&now) || len(now.Claims) != 0 {
		t.Errorf("table %+v", now)
	}
	b.addNumbers(&now)
	b.addNumbers(&now)
	var ids []node.ID
	for _, h := range now.HCAs {
		ids = append(ids, h.ID)
	}
	if !slices.Equal(ids, []node.ID{leasetest.A, leasetest.B, leasetest.C}) {
		t.Errorf("HCAs %+v", now.HCAs)
	}
	// One that has only begun has claimed nothing.
	empty := Book{Journal: new(journal.Journal)}
	if !empty.Claim(&now) {
		t.Error("an empty journal is taken for one that holds something")
	}
	empty.Gaps = []journal.Gap{{}}
	if empty.Claim(&now) {
		t.Error("a journal of which nothing reads is taken for an empty one")
	}
}

func TestATableThatIsMadeAnewHasTheNumbersOfItsClaims(t *testing.T) {
	claim := func(id node.ID, index int) table.Claim {
		return table.Claim{HCA: id, Gres: "nic", Index: index, Job: 1}
	}
	for name, c := range map[string]struct {
		claims []table.Claim
		want   string
	}{
		"none":                                {nil, "a b c"},
		"one that was moved up by a late one": {[]table.Claim{claim(leasetest.C, 1)}, "a c b"},
		"the late one":                        {[]table.Claim{claim(leasetest.B, 2)}, "a c b"},
		"all":                                 {[]table.Claim{claim(leasetest.A, 2), claim(leasetest.B, 0), claim(leasetest.C, 1)}, "b c a"},
		"one that does not say its index":     {[]table.Claim{{HCA: leasetest.C, Job: 1, Quarantined: "damaged"}}, "a b c"},
		"two of one index, the younger first": {[]table.Claim{claim(leasetest.C, 0), claim(leasetest.B, 0)}, "c a b"},
		"more than there are":                 {[]table.Claim{claim(leasetest.C, 1), claim(leasetest.B, 3), claim(leasetest.A, -1)}, "a c b"},
		"one of an HCA that is not there":     {[]table.Claim{claim(node.ID{GUID: "d"}, 0), claim(leasetest.A, 1)}, "b a c"},
	} {
		now := table.Table{HCAs: []node.HCA{{ID: leasetest.C}, {ID: leasetest.A}, {ID: leasetest.B}}, Claims: c.claims}
		renumber(&now)
		var ids []node.ID
		for _, h := range now.HCAs {
			ids = append(ids, h.ID)
		}
		if got := leasetest.GUIDs(ids); got != c.want {
			t.Errorf("%s: numbered %q, wanted %q", name, got, c.want)
		}
	}
}

func TestALeaseThatDoesNotSayWhatItHasKeepsWhatItNotesToBeOut(t *testing.T) {
	var now table.Table
	b := bookOf(t, 1)
	b.Notes[slices.IndexFunc(b.Notes, func(n journal.Note) bool { return n.Number == 3 })].Struck = true
	b.quarantineNoted(&now, time.Unix(1, 0))
	var ids []node.ID
	for _, c := range now.Claims {
		ids = append(ids, c.HCA)
		if c.Job != 1 || c.Quarantined == "" {
			t.Errorf("claim %+v", c)
		}
	}
	slices.SortFunc(ids, node.Compare)
	if !slices.Equal(ids, []node.ID{leasetest.A, leasetest.B, leasetest.C}) {
		t.Errorf("claimed are %s", leasetest.GUIDs(ids))
	}
}
