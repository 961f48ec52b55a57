package check_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/check"
	"gresnet/lib/config"
	"gresnet/lib/hint"
)

func TestOverlaysAreHeldAgainstTheNode(t *testing.T) {
	const well = "ok       overlay: job0: jobs of up to 65534 nodes in 198.18.0.0/16; UDP port 489 must be open between nodes\n"
	hosts := func(services string) func(*check.Site) {
		return func(s *check.Site) {
			s.Root.(fstest.MapFS)["etc/nsswitch.conf"] = file("passwd: sss files\n# hosts: dns\nhosts:\t" + services + "\n")
		}
	}
	nscd := func(caches string) func(*check.Site) {
		return func(s *check.Site) {
			root := s.Root.(fstest.MapFS)
			root["run/nscd/socket"], root["etc/nscd.conf"] = file(""), file("\tenable-cache\tpasswd\tyes\n\tenable-cache\t\thosts\t\t"+caches+"\n")
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*check.Site)
		want  string
	}{
		{"none", func(s *check.Site) { s.Config.Overlay.Kind = config.OverlayNone }, ""},
		{"well", func(*check.Site) {}, well},
		{"/etc/hosts first", hosts("files dns"), well},
		{"nothing that knows nodes before it", hosts("mymachines files resolve"), well},
		{"another before /etc/hosts", hosts("mymachines resolve [!UNAVAIL=return] files dns # as systemd has it"), well +
			"warning  overlay: /etc/nsswitch.conf has programs ask resolve for a name before /etc/hosts: in jobs, the names of their nodes mean the nodes; put files first in its line hosts\n"},
		{"nscd that caches hosts", nscd("yes"), well +
			"warning  overlay: programs ask nscd for a name before /etc/hosts: in jobs, the names of their nodes mean the nodes; set enable-cache hosts no in /etc/nscd.conf, and restart nscd\n"},
		{"nscd that does not", nscd("no"), well},
		{"what is in its way", func(s *check.Site) { s.OverlayErr = hint.With(errors.New("overlay: it overlaps"), "take another") },
			"error    overlay: it overlaps; take another\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := site()
			s.Config.Overlay = config.Default().Overlay
			c.spoil(&s)
			got := ""
			for line := range strings.Lines(printed(t, s.Run())) {
				if strings.Contains(line, " overlay: ") {
					got += line
				}
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
