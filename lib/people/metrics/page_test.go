package metrics

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func TestALabelsValueIsAWordOfSixtyFourBytesAtMost(t *testing.T) {
	want := regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,64}$`)
	for range 20000 {
		var value strings.Builder
		for range rand.IntN(70) {
			if rand.IntN(100) == 0 {
				value.WriteRune(rune(rand.IntN(0x3000)))
			} else {
				value.WriteByte("AZaz09_.:-"[rand.IntN(10)])
			}
		}
		if got := isWord(value.String()); got != want.MatchString(value.String()) {
			t.Fatalf("%q: %t", value.String(), got)
		}
	}
}
