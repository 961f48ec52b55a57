package ethtool

import (
	"net"
	"testing"
)

// udev may rename an interface between a look at it and one at its files, and another
// one may have its name by then. The node of the test has lo.
func TestTheQueuesAreThoseOfTheInterfaceWhateverItsNameWas(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"wasrenamed0"}
	for _, i := range all { // lo itself is one of them
		names = append(names, i.Name)
	}
	for _, was := range names {
		q, err := Queues{Index: lo.Index, Name: was, Now: func() (string, error) { return "lo", nil }}.Open()
		if err != nil || q == nil {
			t.Errorf("open the queues of lo, which was %s: %v, %v", was, q, err)
			continue
		}
		if !q.of(lo.Index) {
			t.Errorf("the queues of lo, which was %s, are another's", was)
		}
		q.Close()
	}
}
