package lease

import (
	"slices"
	"strings"
	"testing"
)

func TestMovesAreUndoneAsTheyWereDone(t *testing.T) {
	const want = "overlay, rdma A, link ibA, rdma B, rdma C, link roceB, " +
		"settings ibA, settings roceB, access A, access B, access C, devices, namespace, claim"
	notes := wholeLease()
	ib := slices.IndexFunc(notes, func(s Note) bool { return s.Kind() == "link" && s.Object() == "ibA" })
	a := slices.IndexFunc(notes, func(s Note) bool { return s.Kind() == "rdma" && s.Object() == "A" })
	moved := notes[ib]
	notes = slices.Insert(slices.Delete(notes, ib, ib+1), a+1, moved) // as with IPoIB
	sortForUndo(notes)
	var got []string
	for _, s := range notes {
		got = append(got, strings.TrimSpace(s.Kind()+" "+s.Object()))
	}
	if got := strings.Join(got, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
