package lease

import (
	"slices"
	"strings"
	"testing"
)

func TestMovesAreUndoneAsTheyWereDone(t *testing.T) {
	const want = "overlay, rdma A, link ibA, rdma B, rdma C, link roceB, " +
		"settings ibA, settings roceB, access A, access B, access C, devices, namespace, claim"
	entries := wholeLease()
	ib := slices.IndexFunc(entries, func(s Entry) bool { return s.Kind() == "link" && s.Object() == "ibA" })
	a := slices.IndexFunc(entries, func(s Entry) bool { return s.Kind() == "rdma" && s.Object() == "A" })
	moved := entries[ib]
	entries = slices.Insert(slices.Delete(entries, ib, ib+1), a+1, moved) // as with IPoIB
	sortForUndo(entries)
	var got []string
	for _, s := range entries {
		got = append(got, strings.TrimSpace(s.Kind()+" "+s.Object()))
	}
	if got := strings.Join(got, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
