package source_test

import (
	"context"
	"os"
	"reflect"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
	"gresnet/test/sitetest"
)

// layout is what scontrol show resources --json of Slurm 26.05 prints, less
// what says nothing of GRES.
const layout = `{
  "nodes": [
    {"node": "node2", "core_bitmap": "0", "gres": [{"name": "nic", "type": "", "count": 1, "index": "7"}]},
    {"node": "node1", "core_bitmap": "0-3", "gres": [
      {"name": "gpu", "type": "h100", "count": 2, "index": "0-1"},
      {"name": "nic", "type": "mlx5", "count": 3, "index": "0-1,3"},
      {"name": "hca", "type": "", "count": 2, "index": null}
    ]}
  ],
  "meta": {"slurm": {"release": "26.05.5"}}, "errors": [], "warnings": []
}
`

// askRun asks a scontrol about a run that has an SLUID.
func askRun(program string) ([]gres.Want, []string, error) {
	cfg := config.Default()
	cfg.Slurm.Gres, cfg.Slurm.Source, cfg.Slurm.Scontrol = []string{"nic", "hca"}, []string{"scontrol"}, program
	j := job.Job{ID: 4711, Node: "node1", Run: job.Run{SLUID: "s8KQ3V7Z1"}}
	return source.Ask(context.Background(), j, cfg, source.Local{})
}

func TestScontrolIsAskedForResourcesWhereThereAreSLUIDs(t *testing.T) {
	program, log := scontrolThat(t, says(layout))
	wants, _, err := askRun(program)
	want := []gres.Want{
		{Gres: "nic", Type: "mlx5", Indices: []int{0, 1, 3}, Source: "scontrol"},
		{Gres: "hca", Count: 2, Cores: []int{0, 1, 2, 3}, Source: "scontrol"},
	}
	if err != nil || !reflect.DeepEqual(wants, want) {
		t.Errorf("got %+v, %v, want %+v", wants, err, want)
	}
	if !strings.HasPrefix(log(), "show resources 4711 --json ") || strings.Count(log(), "\n") != 1 {
		t.Errorf("asked %q", log())
	}
}

func TestAnOlderScontrolIsAskedForTheText(t *testing.T) {
	for _, said := range []string{
		"scontrol: unrecognized option '--json'",
		"invalid entity:resources for keyword:show",
		"scontrol: error: cannot find serializer plugin for serializer/json",
	} {
		program, log := scontrolThat(t, "if [ \"$2\" = resources ]; then\necho \""+said+"\" >&2\nexit 1\nfi\n"+says(shown(4711, "node1", "nic:1(IDX:2)")))
		wants, _, err := askRun(program)
		if err != nil || len(wants) != 1 || !reflect.DeepEqual(wants[0].Indices, []int{2}) {
			t.Errorf("%s: got %+v, %v", said, wants, err)
		}
		if strings.Count(log(), "\n") != 2 {
			t.Errorf("%s: asked %q", said, log())
		}
	}
}

// A job that is canceled while its prolog runs is none of which there are resources,
// and no reason to drain its node.
func TestOfAJobThatRunsNoMoreTheTextSaysThatItHasNothing(t *testing.T) {
	for _, answer := range []string{
		says(`{"nodes": [], "errors": []}` + "\n"),
		"exit 1\n",
		"echo 'Job/step not running' >&2\nexit 1\n",
		says(`{"nodes": [], "errors": [{"description": "Job not running"}]}` + "\n"),
	} {
		program, log := scontrolThat(t, "if [ \"$2\" = resources ]; then\n"+answer+"exit 0\nfi\n"+says(shown(4711, "node1", "")))
		wants, _, err := askRun(program)
		if err != nil || len(wants) != 0 || strings.Count(log(), "\n") != 2 {
			t.Errorf("%s: got %+v, %v; asked %q", answer, wants, err, log())
		}
	}
}

func TestResourcesThatCannotBeReadAreTheJobsFault(t *testing.T) {
	for name, c := range map[string]struct{ script, err string }{
		"cut off":        {says(layout[:strings.Index(layout, "core_bitmap")-2] + "\n"), "read its JSON: unexpected end of JSON input"},
		"another node":   {says(strings.ReplaceAll(layout, "node1", "node3")), "what scontrol says of the job: node node1 is not in it: somebody has changed, requeued or canceled it since its prolog began"},
		"another form":   {says(`{"nodes": {"node1": {}}}` + "\n"), "read its JSON: json: cannot unmarshal object into Go struct field resources.nodes of type []source.nodeResources"},
		"no gres":        {says(strings.ReplaceAll(layout, `"gres"`, `"tres"`)), "unknown form: node node1 has no gres"},
		"no count":       {says(strings.ReplaceAll(layout, `"count"`, `"amount"`)), "unknown form: a gres of node node1 lacks name, count or index"},
		"no index":       {says(strings.ReplaceAll(layout, `"index"`, `"indices"`)), "unknown form: a gres of node node1 lacks name, count or index"},
		"no name":        {says(strings.ReplaceAll(layout, `"name"`, `"gres"`)), "unknown form: a gres of node node1 lacks name, count or index"},
		"no node":        {says(strings.ReplaceAll(layout, `"node"`, `"host"`)), "unknown form: it does not say which node"},
		"an error in it": {says(`{"nodes": [], "errors": [{"description": "Access denied"}]}` + "\n"), `it says "Access denied"`},
		"a failure":      {"echo 'Access denied' >&2\nexit 1\n", `exit status 1: it says "Access denied"`},
	} {
		t.Run(name, func(t *testing.T) {
			program, _ := scontrolThat(t, c.script)
			_, _, err := askRun(program)
			if err == nil {
				t.Fatal("no error")
			}
			want := c.err
			if !strings.HasPrefix(want, "what ") {
				want = "what source scontrol says of job 4711: " + want
			}
			sitetest.Refusal(t, plain{took.ReplaceAllString(err.Error(), ""), err}, want)
		})
	}
}

func FuzzResources(f *testing.F) {
	f.Add(layout, "node1")
	f.Add(`{"nodes": [{"node": "a", "gres": [{"name": "nic", "count": 18446744073709551615, "index": "0-"}]}]}`, "a")
	f.Add(`{"nodes": null}`, os.DevNull)
	f.Fuzz(func(t *testing.T, text, node string) {
		detail, err := source.ParseResources(text, node)
		if err != nil {
			return
		}
		wants, err := gres.ParseDetail(detail, []string{"nic", "hca"})
		if err != nil {
			return
		}
		for _, w := range wants {
			checkWant(t, w, detail)
		}
	})
}
