package host

import (
	"strings"
	"testing"

	"gresnet/lib/base/hint"
	"gresnet/lib/hca/scan"
	"gresnet/lib/link"
)

func TestAnHCAThatEndsWithItsInterfaceIsRefusedUnlessThatIsKept(t *testing.T) {
	for _, c := range []struct {
		driver  string
		keep    bool
		refused bool
	}{
		{"rxe", false, true},
		{"siw", false, true},
		{"rxe", true, false},
		{"siw", true, false},
		{"mlx5", false, false},
		{"bnxt_re", false, false}, // it comes again where its interface is
		{"", false, false},        // without ib_uverbs nobody tells
	} {
		err := survives(c.keep, scan.Device{Name: "rxe0", Driver: c.driver}, "eth0")
		if (err != nil) != c.refused {
			t.Errorf("driver %q, keep %t: %v", c.driver, c.keep, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "driver "+c.driver+" ends rxe0 when its interface eth0 is moved") || !strings.Contains(hint.Of(err), "keep")) {
			t.Errorf("driver %q: %v, hint %q", c.driver, err, hint.Of(err))
		}
	}
}

func TestAnInterfaceThatNothingTellsFromAnotherOneIsRefused(t *testing.T) {
	two := func(parent string) []link.Interface {
		return []link.Interface{
			{ID: link.ID{Parent: "pci/0000:3b:00.1"}, Index: 5, Name: "enp59s0v0", MAC: "02:00:00:00:00:01"},
			{ID: link.ID{Parent: parent}, Index: 6, Name: "other0", MAC: "02:00:00:00:00:02"},
		}
	}
	if list := two("pci/0000:3b:00.2"); isKnowable(list[0], list) != nil {
		t.Errorf("each is on a function of its own: %v", isKnowable(list[0], list))
	}
	list := two("pci/0000:3b:00.1")
	if err := isKnowable(list[0], list); err == nil || !strings.Contains(err.Error(), "enp59s0v0 and other0 are both interfaces of pci/0000:3b:00.1") || hint.Of(err) == "" {
		t.Errorf("both are on one function: %v", err)
	}
}
