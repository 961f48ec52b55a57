package check_test

import (
	"errors"
	"testing"

	"gresnet/lib/people/check"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
)

func TestOverlaysAreHeldAgainstTheNode(t *testing.T) {
	const well = "ok       overlay: jobs have the node's own address; UDP port 489 must be open between nodes\n"
	for _, c := range []struct {
		name  string
		spoil func(*check.Site)
		want  string
	}{
		{"none", func(s *check.Site) { s.Config.Overlay.Kind = config.OverlayNone }, ""},
		{"well", func(*check.Site) {}, well},
		{"what is in its way", func(s *check.Site) { s.OverlayErr = hint.With(errors.New("overlay: it overlaps"), "take another") },
			"error    overlay: it overlaps; take another\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := site()
			s.Config.Overlay = config.Default().Overlay
			c.spoil(&s)
			if got := about(t, "overlay", s.Run()); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
