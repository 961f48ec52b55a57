package recovery

import (
	"slices"
	"strings"
	"testing"
)

func TestMovesAreUndoneAsTheyWereDoneUnlessANoteIsMissing(t *testing.T) {
	const last = "settings ibA, settings roceB, access A, access B, access C, devices, namespace, claim"
	for whole, moves := range map[bool]string{
		true:  "overlay, rdma A, link ibA, rdma B, rdma C, link roceB, ",
		false: "overlay, rdma A, rdma B, rdma C, link ibA, link roceB, ",
	} {
		notes := wholeLease()
		ib := slices.IndexFunc(notes, func(s Note) bool { return s.Kind() == "link" && s.Object() == "ibA" })
		a := slices.IndexFunc(notes, func(s Note) bool { return s.Kind() == "rdma" && s.Object() == "A" })
		moved := notes[ib]
		notes = slices.Insert(slices.Delete(notes, ib, ib+1), a+1, moved) // as with IPoIB
		SortForUndo(notes, whole)
		var got []string
		for _, s := range notes {
			got = append(got, strings.TrimSpace(s.Kind()+" "+s.Object()))
		}
		if got := strings.Join(got, ", "); got != moves+last {
			t.Errorf("whole %v:\ngot  %s\nwant %s", whole, got, moves+last)
		}
	}
}
