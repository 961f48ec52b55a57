package metrics

import (
	"regexp"
	"strings"
	"testing"

	"gresnet/test/seed"
)

func TestALabelsValueIsAWordOfSixtyFourBytesAtMost(t *testing.T) {
	want := regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
	for range 20000 {
		var value strings.Builder
		for range seed.IntN(70) {
			if seed.IntN(100) == 0 {
				value.WriteRune(rune(seed.IntN(0x3000)))
			} else {
				value.WriteByte("AZaz09_.:-"[seed.IntN(10)])
			}
		}
		if got := IsWord(value.String()); got != want.MatchString(value.String()) {
			t.Fatalf("%q: %t", value.String(), got)
		}
	}
}
