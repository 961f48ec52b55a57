package table_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"gresnet/lib/node"
	"gresnet/lib/table"
)

func TestATableWithoutClaimsHasAnEmptyListOfThem(t *testing.T) {
	n := table.File{Dir: t.TempDir()}
	must(t, n.Update(t.Context(), func(t *table.Table) error { t.HCAs = []node.HCA{{ID: node.ID{GUID: "a"}}}; return nil }))
	text, err := os.ReadFile(filepath.Join(n.Dir, "node.json"))
	if err != nil || !strings.Contains(string(text), `"claims": []`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestClaimsAreWrittenReadAndReleasedByRun(t *testing.T) {
	n := table.File{Dir: t.TempDir()}
	a, b := node.ID{GUID: "a"}, node.ID{GUID: "b"}
	must(t, n.Update(t.Context(), func(t *table.Table) error {
		t.Claims = []table.Claim{{HCA: a, Job: 1, Run: "0"}, {HCA: b, Job: 1, Run: "0"}, {HCA: node.ID{GUID: "c"}, Job: 1, Run: "1"}}
		return nil
	}))
	must(t, n.Update(t.Context(), func(t *table.Table) error {
		t.Release(1, "0", nil, map[node.ID]string{b: "gone"})
		return nil
	}))
	now, err := n.Read()
	must(t, err)
	if len(now.Claims) != 2 || now.Claims[0].HCA != b || now.Claims[0].Quarantined != "gone" || now.Claims[1].Run != "1" {
		t.Errorf("claims %+v", now.Claims)
	}
	if _, held := now.Holder(a); held {
		t.Error("a released HCA has a holder")
	}
	// The next unwinding brought it home.
	must(t, n.Update(t.Context(), func(t *table.Table) error { t.Release(1, "0", nil, nil); return nil }))
	if now, _ = n.Read(); len(now.Claims) != 1 {
		t.Errorf("claims %+v", now.Claims)
	}
}

func TestWhoReadsAgainSeesWhatOthersHaveWrittenAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	n, other := table.NewFile(dir), table.File{Dir: dir}
	claim := func(job uint32) func(*table.Table) error {
		return func(t *table.Table) error {
			t.Claims = append(t.Claims, table.Claim{HCA: node.ID{GUID: fmt.Sprint(job)}, Job: job})
			return nil
		}
	}
	for job := range uint32(3) {
		must(t, other.Update(t.Context(), claim(job)))
		for range 2 {
			now, err := n.Read()
			must(t, err)
			if len(now.Claims) != int(job)+1 || now.Claims[job].Job != job || now.Claims[0].Job != 0 {
				t.Errorf("claims %+v", now.Claims)
			}
			now.Claims[0].Job = 99 // the reader's own affair
		}
	}
	must(t, n.Update(t.Context(), claim(3)))
	if now, err := other.Read(); err != nil || len(now.Claims) != 4 || now.Claims[0].Job != 0 {
		t.Errorf("claims %+v, %v", now.Claims, err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "node.json"), []byte("{}\n"), 0o644))
	if _, err := n.Read(); !errors.Is(err, table.ErrDamaged) {
		t.Errorf("a damaged now: %v", err)
	}
}

func TestAChangeThatFailsLeavesTheTable(t *testing.T) {
	n := table.File{Dir: t.TempDir()}
	must(t, n.Update(t.Context(), func(t *table.Table) error { t.Claims = []table.Claim{{Job: 1}}; return nil }))
	before, _ := os.ReadFile(filepath.Join(n.Dir, "node.json"))
	want := errors.New("no")
	err := n.Update(t.Context(), func(t *table.Table) error { t.Claims = nil; return want })
	if err != want {
		t.Errorf("error %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(n.Dir, "node.json")); string(after) != string(before) {
		t.Errorf("the table is now %s", after)
	}
}

func TestClaimsOfManyAtOnceAreAllKept(t *testing.T) {
	n := table.File{Dir: t.TempDir()}
	var wg sync.WaitGroup
	for job := range 50 {
		wg.Go(func() {
			err := n.Update(t.Context(), func(t *table.Table) error {
				t.Claims = append(t.Claims, table.Claim{HCA: node.ID{GUID: fmt.Sprint(job)}, Job: uint32(job)})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if now, err := n.Read(); err != nil || len(now.Claims) != 50 {
		t.Errorf("%d claims, %v", len(now.Claims), err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestATableOfWhichPartsAreKnownReadsAsOneOfWhichNothingIs(t *testing.T) {
	dir := t.TempDir()
	n, plain := table.NewFile(dir), table.File{Dir: dir}
	// What could be taken for the end of an element, or of the list.
	odd := []string{"", "},", "{", "],", "\n    },\n    {", "\n  ],\n  \"claims\": [\n    {"}
	for range 300 {
		must(t, plain.Update(t.Context(), func(t *table.Table) error {
			for len(t.HCAs) > 0 && rand.IntN(3) > 0 {
				i := rand.IntN(len(t.HCAs))
				t.HCAs = slices.Delete(t.HCAs, i, i+1)
			}
			for rand.IntN(3) > 0 {
				h := node.HCA{ID: node.ID{GUID: fmt.Sprint(rand.Int())}, Name: odd[rand.IntN(len(odd))]}
				for range rand.IntN(3) {
					h.Ports = append(h.Ports, node.Port{Num: rand.Uint32N(9), LinkLayer: odd[rand.IntN(len(odd))]})
				}
				t.HCAs = slices.Insert(t.HCAs, rand.IntN(len(t.HCAs)+1), h)
			}
			for len(t.Claims) > 0 && rand.IntN(3) > 0 {
				i := rand.IntN(len(t.Claims))
				t.Claims = slices.Delete(t.Claims, i, i+1)
			}
			for rand.IntN(3) > 0 {
				c := table.Claim{HCA: node.ID{GUID: fmt.Sprint(rand.Int())}, Job: rand.Uint32(), Quarantined: odd[rand.IntN(len(odd))]}
				t.Claims = slices.Insert(t.Claims, rand.IntN(len(t.Claims)+1), c)
			}
			t.Uplinks = nil
			if rand.IntN(2) == 0 {
				t.Uplinks = []table.Uplink{{Job: 1, Run: odd[rand.IntN(len(odd))]}}
			}
			return nil
		}))
		got, err := n.Read()
		must(t, err)
		want, err := plain.Read()
		must(t, err)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	}
}
