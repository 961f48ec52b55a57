package host

import (
	"strings"
	"testing"

	"gresnet/lib/hint"
	"gresnet/lib/scan"
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
