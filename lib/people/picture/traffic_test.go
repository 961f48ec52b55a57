package picture

import (
	"strings"
	"testing"
)

// Of each pair the kernel says the one a second before the other, of a node that nobody changes.
func TestThatTheLinkWatchIsLateIsNoDifferenceOfLabels(t *testing.T) {
	for _, c := range [][2]string{
		{
			"unicast 101 via inet 10.1.0.1 dev ib0 proto boot scope global \n",
			"unicast 101 via inet 10.1.0.1 dev ib0 proto boot scope global linkdown \n",
		},
		{
			"unicast 102 proto boot scope global \\\tnexthop as to 300 via inet 10.1.0.9 dev ib0 \\\tnexthop as to 301 via inet 10.3.0.9 dev roce0 linkdown \n",
			"unicast 102 proto boot scope global \\\tnexthop as to 300 via inet 10.1.0.9 dev ib0 linkdown \\\tnexthop as to 301 via inet 10.3.0.9 dev roce0 linkdown \n",
		},
	} {
		soon, late := labelled(c[0]), labelled(c[1])
		if a, b := strings.Join(soon, "\n"), strings.Join(late, "\n"); a != b || len(soon) != 1 {
			t.Errorf("%d facts:\n%s\n%s", len(soon), a, b)
		}
	}
}

func TestThatAnotherInterfaceHasNoCarrierIsAFactOfLabels(t *testing.T) {
	for _, c := range []struct{ what, text string }{
		{" linkdown", "unicast 101 via inet 10.3.0.1 dev roce0 proto boot scope global linkdown \n"},
		{" linkdown", "unicast 102 proto boot scope global \\\tnexthop via inet 10.1.0.9 dev ib0 \\\tnexthop via inet 10.3.0.9 dev roce0 linkdown \n"},
		{" dead", "unicast 103 via inet 10.1.0.1 dev ib0 proto boot scope global dead linkdown \n"}, // it is down
	} {
		if facts := labelled(c.text); len(facts) != 1 || !strings.Contains(facts[0], c.what) {
			t.Errorf("%q, wanted one with %q", facts, c.what)
		}
	}
}
