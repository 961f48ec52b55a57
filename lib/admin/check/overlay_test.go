package check_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/admin/check"
	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
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

func TestPortsOfSlurmThatAJobDoesNotReachOnItsNodesAreNamed(t *testing.T) {
	const slurmd = "warning  overlay: srun inside a job does not reach slurmd on the job's nodes: services lacks its port %s; add it to services in [overlay]\n"
	const slurmctld = "warning  overlay: srun inside a job does not reach slurmctld on the job's nodes: services lacks its port %s; add it to services in [overlay]\n"
	for name, c := range map[string]struct {
		conf     string
		services []int // besides the default ones
		want     string
	}{
		"the usual ones":                  {"SlurmctldHost=node2\n", nil, ""},
		"another of slurmd's":             {"SlurmdPort=7018\n", nil, fmt.Sprintf(slurmd, "7018")},
		"another of this node's":          {"NodeName=node1 Port=7001\n", nil, fmt.Sprintf(slurmd, "7001")},
		"another of another node's":       {"NodeName=node10 Port=7001\n", nil, ""},
		"another of slurmd's, in it":      {"SlurmdPort=7018\n", []int{7018}, ""},
		"another of slurmd's, below":      {"SlurmdPort=718\n", nil, ""},
		"several of slurmctld's":          {"SlurmctldHost=ctl(10.0.0.1)\nSlurmctldHost=node2\nSlurmctldPort=6820-6829\n", nil, fmt.Sprintf(slurmctld, "6820-6829")},
		"some of slurmctld's":             {"SlurmctldHost=node2(10.0.0.2)\nSlurmctldPort=6817-6823\n", []int{6820}, fmt.Sprintf(slurmctld, "6819,6821-6823")},
		"slurmctld's on a host of a node": {"NodeName=login NodeHostname=ctl\nSlurmctldHost=ctl\nSlurmctldPort=6820\n", nil, fmt.Sprintf(slurmctld, "6820")},
		"slurmctld's beyond all nodes":    {"SlurmctldHost=ctl\nSlurmctldPort=6820-6829\n", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := site()
			s.Config.Overlay = config.Default().Overlay
			s.Config.Overlay.Services = append(slices.Clone(s.Config.Overlay.Services), c.services...)
			s.Uplinks = pool("auto", "198.19.0.0/24")
			edit("etc/slurm/slurm.conf", "PrologFlags", c.conf+"PrologFlags")(&s)
			if strings.Contains(c.conf, "NodeName=node1 ") {
				edit("etc/slurm/slurm.conf", "node[1-9]", "node[2-9]")(&s)
			}
			bad := slices.DeleteFunc(s.Run(), func(f check.Finding) bool { return f.Level == check.OK })
			if got := about(t, "overlay", bad); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			s.Config.Overlay.Kind = config.OverlayNone
			if got := about(t, "overlay", s.Run()); got != "" {
				t.Errorf("without an overlay\n%s", got)
			}
		})
	}
}
