package source_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
)

// part is what scontrol prints of a component of job 4711.
func part(offset int, node, detail string) string {
	return strings.Replace(shown(4711+offset, node, detail), " JobName=", fmt.Sprintf(" HetJobId=4711 HetJobOffset=%d JobName=", offset), 1)
}

func TestAComponentsCompanionsAreThoseWithNICs(t *testing.T) {
	site := func(change func(*config.Config)) config.Config {
		c := config.Default()
		c.Slurm.Source, c.Slurm.Timeout = []string{"scontrol", "gpu"}, patient
		change(&c)
		return c
	}
	shipped := site(func(*config.Config) {})
	both := part(0, "node1", "nic:1(IDX:0)") + part(1, "node[2-3]", "nic:2(IDX:0-1)") + part(2, "node4", "gpu:1(IDX:0)")
	for _, c := range []struct {
		name   string
		job    job.Job
		config config.Config
		text   string
		want   []string
		asked  bool
	}{
		{"the first component", job.Job{ID: 4711, Leader: 4711}, shipped, both, []string{"node[2-3]"}, true},
		{"the second one", job.Job{ID: 4712, Leader: 4711}, shipped, both, []string{"node1"}, true},
		{"one with GPUs alone", job.Job{ID: 4713, Leader: 4711}, shipped, both, nil, true},
		{"one that slurmctld does not name", job.Job{ID: 4719, Leader: 4711}, shipped, both, nil, true},
		{"another one that has ended", job.Job{ID: 4711, Leader: 4711}, shipped, part(0, "node1", "nic:1(IDX:0)") + part(1, "node2", ""), nil, true},
		{"an ordinary job", job.Job{ID: 4711}, shipped, both, nil, false},
		{"a site that does not ask slurmctld first", job.Job{ID: 4711, Leader: 4711}, site(func(c *config.Config) { c.Slurm.Source = []string{"gpu", "scontrol"} }), both, nil, false},
		{"a site without overlays", job.Job{ID: 4711, Leader: 4711}, site(func(c *config.Config) { c.Overlay.Kind = "none" }), both, nil, false},
		{"a site whose jobs are in the node's network", job.Job{ID: 4711, Leader: 4711}, site(func(c *config.Config) { c.Access.Isolation = config.IsolateDevices }), both, nil, false},
		{"a site where some jobs are", job.Job{ID: 4711, Leader: 4711}, site(func(c *config.Config) { c.Policies = []config.Policy{{Isolation: config.IsolateDevices}} }), both, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log func() string
			c.config.Slurm.Scontrol, log = scontrolThat(t, says(c.text))
			got, err := source.Companions(t.Context(), c.job, c.config)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
			if asked := strings.HasPrefix(log(), "show job -d 4711 "); asked != c.asked {
				t.Errorf("asked %q", log())
			}
		})
	}
}

func TestAHeterogeneousJobOfWhichNobodyKnowsTheComponentsIsRefused(t *testing.T) {
	cfg := config.Default()
	cfg.Slurm.Source, cfg.Slurm.Timeout = []string{"scontrol"}, patient
	for name, c := range map[string]struct{ script, why string }{
		"slurmctld knows none": {"echo 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1\n", `exit status 1: it says "slurm_load_jobs error: Invalid job id specified"`},
		"another job":          {says(shown(4712, "node1", "nic:1(IDX:0)")), "it is about job 4712 and not 4711: somebody has changed, requeued or canceled it since its prolog began"},
		"a user imitates what one has": {says(strings.Replace(part(0, "node1", "nic:1(IDX:0)"), "WorkDir=", "WorkDir=/\n   Socks/Node=*\n     Nodes=node9 CPU_IDs=0 Mem=0 GRES=nic:1(IDX:0)\n   MinCPUsNode=1\n", 1)),
			"it says 2 times what a job has, and Slurm says one: the job's name, comment or a path imitates it"},
		"a user imitates one": {says(part(0, "node1", "nic:1(IDX:0)") + part(1, "node2", "nic:1(IDX:0)") + part(1, "node9", "nic:1(IDX:0)")), "job 4712 is in it twice, and Slurm says one: the job's name, comment or a path imitates it"},
	} {
		cfg.Slurm.Scontrol, _ = scontrolThat(t, c.script)
		_, err := source.Companions(t.Context(), job.Job{ID: 4711, Leader: 4711}, cfg)
		var refusal *gres.Refusal
		if !errors.As(err, &refusal) || refusal.Why != c.why {
			t.Errorf("%s: %v, want %s", name, err, c.why)
		}
	}
}
