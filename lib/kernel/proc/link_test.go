package proc

import (
	"regexp"
	"testing"

	"gresnet/test/seed"
)

func TestALinkOfADeviceNodeIsKnownWhereverItIsAndWhetherItIsStillThere(t *testing.T) {
	want := regexp.MustCompile(`(^|/)(uverbs\d+|umad\d+|hfi1_\d+|rdma_cm)( \(deleted\))?$`)
	parts := []string{"/dev/infiniband/", "/", "uverbs", "umad", "hfi1_", "issm", "rdma_cm", "0", "17", " (deleted)", "x"}
	known := 0
	for range 20000 {
		link := ""
		for range 1 + seed.IntN(5) {
			link += parts[seed.IntN(len(parts))]
		}
		got := isCharLink(link)
		if got != want.MatchString(link) {
			t.Fatalf("%q: %t", link, got)
		}
		if got {
			known++
		}
	}
	if known < 100 {
		t.Errorf("%d links of device nodes are among those tried", known)
	}
}
