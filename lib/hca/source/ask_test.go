package source_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
	"gresnet/lib/slurm"
	"gresnet/test/sitetest"
)

// site is a node of four GPUs: nic 0 serves GPUs 0 and 1, nic 1 GPU 2, nic 2
// none, hca 0 GPU 3.
const site = `
[slurm]
gres = ["nic", "hca"]
source = ["gpu"]
[[hca]]
index = 0
match = "rdma=mlx5_0"
gpus = [0, 1]
[[hca]]
index = 1
match = "rdma=mlx5_1"
gpus = [2]
[[hca]]
index = 2
match = "rdma=mlx5_2"
[[hca]]
gres = "hca"
index = 0
match = "rdma=mlx5_3"
gpus = [3]
`

// mapped returns the mapping of a configuration on a node of four HCAs.
func mapped(cfg config.Config) source.Local {
	return source.Local{
		Mapping: func([]int) (gres.Mapping, error) { return gres.Map(cfg, sitetest.HCAs(4)) },
		CPUs:    func() (int, error) { return 16, nil },
	}
}

func TestGPUSource(t *testing.T) {
	for _, c := range []struct {
		name    string
		gpus    []int
		partial string
		wants   []gres.Want
		notes   []string
	}{
		{name: "all that an HCA serves", gpus: []int{0, 1}, wants: []gres.Want{{Gres: "nic", Indices: []int{0}, Source: "gpu"}}},
		{name: "of two HCAs and two names", gpus: []int{0, 1, 2, 3},
			wants: []gres.Want{{Gres: "nic", Indices: []int{0, 1}, Source: "gpu"}, {Gres: "hca", Indices: []int{0}, Source: "gpu"}}},
		{name: "a part", gpus: []int{1, 2},
			wants: []gres.Want{{Gres: "nic", Indices: []int{1}, Source: "gpu"}},
			notes: []string{"nic 0 is not granted: it serves GPUs 0-1, of which the job has 1"}},
		{name: "a part alone", gpus: []int{1},
			notes: []string{"nic 0 is not granted: it serves GPUs 0-1, of which the job has 1", "no HCA is granted for GPUs 1"}},
		{name: "a part, and the first has it", gpus: []int{1, 2}, partial: "first",
			wants: []gres.Want{{Gres: "nic", Indices: []int{0}, IfFree: true, Source: "gpu"}, {Gres: "nic", Indices: []int{1}, Source: "gpu"}},
			notes: []string{"nic 0 serves GPUs 0-1, of which the job has 1: granted if no other job has it"}},
		{name: "the whole, where the first has it", gpus: []int{0, 1}, partial: "first", wants: []gres.Want{{Gres: "nic", Indices: []int{0}, Source: "gpu"}}},
		{name: "GPUs that nobody serves", gpus: []int{4, 5}, notes: []string{"no HCA is granted for GPUs 4-5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := sitetest.Parse(t, site)
			if c.partial != "" {
				cfg.Slurm.Partial = c.partial
			}
			wants, notes, err := source.Ask(context.Background(), job.Job{ID: 1, GPUs: c.gpus}, cfg, mapped(cfg))
			if err != nil || !reflect.DeepEqual(wants, c.wants) || !slices.Equal(notes, c.notes) {
				t.Errorf("got %+v, %q, %v,\nwant %+v, %q", wants, notes, err, c.wants, c.notes)
			}
		})
	}
}

func TestSourcesAreAskedInOrderUntilOneAnswers(t *testing.T) {
	for _, c := range []struct {
		name, text, says string
		gpus             []int
		source           string // of the wants; empty: no wants
		asked            bool   // scontrol was
	}{
		{name: "gpu knows the job", text: site, gpus: []int{2}, says: "nic:1(IDX:0)", source: "gpu"},
		{name: "gpu knows that it is none", text: site, gpus: []int{0}, says: "nic:1(IDX:0)"},
		{name: "no GPUs", text: site, says: "nic:1(IDX:0)", source: "scontrol", asked: true},
		{name: "nobody said which GPUs", text: "[slurm]\n", gpus: []int{2}, says: "nic:1(IDX:0)", source: "scontrol", asked: true},
		{name: "scontrol knows that it is none", text: site, says: "gpu:1(IDX:0)", asked: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := sitetest.Parse(t, c.text)
			cfg.Slurm.Source = []string{"gpu", "scontrol"}
			program, log := scontrolThat(t, "cat <<'END'\n"+shown(4711, "node1", c.says)+"END\n")
			cfg.Slurm.Scontrol = program
			wants, _, err := source.Ask(context.Background(), job.Job{ID: 4711, Node: "node1", GPUs: c.gpus}, cfg, mapped(cfg))
			if err != nil {
				t.Fatal(err)
			}
			if got := sourceOf(wants); got != c.source {
				t.Errorf("%+v is from %q, want %q", wants, got, c.source)
			}
			if asked := log() != ""; asked != c.asked {
				t.Errorf("scontrol was asked: %t, want %t", asked, c.asked)
			}
		})
	}
}

// GPUs that cannot be found are of another kind, or gone: what nobody else knows is no "none".
func TestAJobWhoseGPUsCannotBeFoundIsAFaultUnlessAnotherSourceKnowsIt(t *testing.T) {
	lost := func([]int) (gres.Mapping, error) { return nil, fmt.Errorf("find the HCAs: %w", gres.ErrNoGPU) }
	local := source.Local{Mapping: lost, CPUs: func() (int, error) { return 16, nil }}
	cfg := sitetest.Parse(t, "[slurm]\nsource = [\"gpu\", \"node\"]\n")
	if _, _, err := source.Ask(t.Context(), job.Job{ID: 1, GPUs: []int{0}}, cfg, local); !errors.Is(err, gres.ErrNoGPU) {
		t.Errorf("error %v", err)
	}
	if _, _, err := source.Ask(t.Context(), job.Job{ID: 1}, cfg, local); err != nil {
		t.Errorf("a job without GPUs: %v", err)
	}
	cfg = sitetest.Parse(t, "[slurm]\nsource = [\"gpu\", \"policy\"]\n[[policy]]\ncount = 1\n")
	wants, _, err := source.Ask(t.Context(), job.Job{ID: 1, GPUs: []int{0}}, cfg, local)
	if err != nil || len(wants) != 1 {
		t.Errorf("a job that a policy knows: %v, %v", wants, err)
	}
}

func TestAnExplicitRequestDecidesAndGPUsDoWhereThereIsNone(t *testing.T) {
	for _, c := range []struct {
		name, says string
		gpus       []int
		want       []gres.Want
	}{
		{"four GPUs and one NIC", "gpu:4(IDX:0-3),nic:1(IDX:2)", []int{0, 1, 2, 3}, []gres.Want{{Gres: "nic", Indices: []int{2}, Source: "scontrol"}}},
		{"one GPU of two that share an HCA, and one NIC", "gpu:1(IDX:0),nic:1(IDX:0)", []int{0}, []gres.Want{{Gres: "nic", Indices: []int{0}, Source: "scontrol"}}},
		{"a NIC alone", "nic:1(IDX:1)", nil, []gres.Want{{Gres: "nic", Indices: []int{1}, Source: "scontrol"}}},
		{"GPUs alone", "gpu:2(IDX:0-1)", []int{0, 1}, []gres.Want{{Gres: "nic", Indices: []int{0}, Source: "gpu"}}},
		{"a NIC that is none of ours", "gpu:1(IDX:2),other:1(IDX:0)", []int{2}, []gres.Want{{Gres: "nic", Indices: []int{1}, Source: "gpu"}}},
		{"neither", "", nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := sitetest.Parse(t, site)
			cfg.Slurm.Source = []string{"scontrol", "gpu"}
			cfg.Slurm.Scontrol, _ = scontrolThat(t, "cat <<'END'\n"+shown(4711, "node1", c.says)+"END\n")
			wants, _, err := source.Ask(t.Context(), job.Job{ID: 4711, Node: "node1", GPUs: c.gpus}, cfg, mapped(cfg))
			if err != nil || !reflect.DeepEqual(wants, c.want) {
				t.Errorf("got %+v, %v, want %+v", wants, err, c.want)
			}
		})
	}
}

// slurmctld may have counted another job's HCA among those of the GPUs.
func TestGPUsDoNotDecideWhereSlurmctldDoesNotAnswer(t *testing.T) {
	cfg := sitetest.Parse(t, site)
	cfg.Slurm.Source = []string{"scontrol", "gpu"}
	cfg.Slurm.Scontrol, _ = scontrolThat(t, "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1\n")
	wants, _, err := source.Ask(t.Context(), job.Job{ID: 4711, Node: "node1", GPUs: []int{2}}, cfg, mapped(cfg))
	if err == nil || len(wants) > 0 {
		t.Errorf("got %+v, %v, wanted an error", wants, err)
	}
}

func TestWhatSlurmctldKnowsNotToBeAskedForOtherSourcesMayGiveAndNoneIsRefused(t *testing.T) {
	lost := source.Local{Mapping: func([]int) (gres.Mapping, error) { return nil, gres.ErrNoGPU }}
	const never = "[[policy]]\npartition = \"other\"\ncount = 1\n"
	for _, c := range []struct {
		name, source, more string
		local              source.Local
		gpus               []int
		fault              bool
	}{
		{"a policy that does not fit, after", `["scontrol", "policy"]`, never, source.Local{}, nil, false},
		{"a policy that does not fit, before", `["policy", "scontrol"]`, never, source.Local{}, nil, false},
		{"GPUs that are gone, after", `["scontrol", "gpu"]`, "", lost, []int{0}, true},
		{"GPUs that are gone, before", `["gpu", "scontrol"]`, "", lost, []int{0}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := sitetest.Parse(t, "[slurm]\nsource = "+c.source+"\n"+c.more)
			cfg.Slurm.Scontrol, _ = scontrolThat(t, "cat <<'END'\n"+shown(4711, "node1", "gpu:1(IDX:0)")+"END\n")
			wants, _, err := source.Ask(t.Context(), job.Job{ID: 4711, Node: "node1", GPUs: c.gpus}, cfg, c.local)
			if len(wants) > 0 || errors.Is(err, gres.ErrNoGPU) != c.fault || !c.fault && err != nil {
				t.Errorf("got %+v, %v", wants, err)
			}
		})
	}
}

func TestAJobThatGetsFewerHCAsThanItsGPUsHaveIsTold(t *testing.T) {
	const part = "nic 0 is not granted: it serves GPUs 0-1, of which the job has 1"
	for _, c := range []struct {
		gpus []int
		want []string
	}{
		{[]int{1}, []string{part}},
		{[]int{1, 2}, []string{part}},
		{[]int{0, 1}, nil},
		{[]int{7}, nil}, // the site has no HCA for it
	} {
		cfg := sitetest.Parse(t, site)
		local := mapped(cfg)
		var told []string
		local.Less = func(why string) { told = append(told, why) }
		if _, _, err := source.Ask(t.Context(), job.Job{ID: 1, GPUs: c.gpus}, cfg, local); err != nil || !slices.Equal(told, c.want) {
			t.Errorf("a job with GPUs %v is told %q, %v, want %q", c.gpus, told, err, c.want)
		}
	}
}

func sourceOf(wants []gres.Want) string {
	var sources []string
	for _, w := range wants {
		if !slices.Contains(sources, w.Source) {
			sources = append(sources, w.Source)
		}
	}
	return strings.Join(sources, " ")
}

func TestAJobThatNoSourceKnowsIsEntitledToNothing(t *testing.T) {
	looked := false
	look := func([]int) (gres.Mapping, error) {
		looked = true
		return nil, nil
	}
	wants, notes, err := source.Ask(context.Background(), job.Job{ID: 1}, sitetest.Parse(t, "[slurm]\nsource = [\"gpu\", \"node\"]\n"), source.Local{Mapping: look, CPUs: func() (int, error) { return 16, nil }})
	if len(wants) != 0 || len(notes) != 0 || err != nil {
		t.Errorf("got %+v, %q, %v", wants, notes, err)
	}
	if looked {
		t.Error("the node was looked at for a job without GPUs")
	}
}

func TestWhatFailsOnTheNodeIsItsFaultAndNamesTheJob(t *testing.T) {
	broken := errors.New("broken")
	fails := func([]int) (gres.Mapping, error) { return nil, broken }
	lost := func([]int) (gres.Mapping, error) { return nil, gres.ErrNoGPU }
	whole := job.Job{ID: 4711, GPUs: []int{0}, Share: job.Share{Exclusive: "NODE"}}
	for _, c := range []struct {
		source string
		local  source.Local
		err    string
	}{
		{"gpu", source.Local{Mapping: fails}, "ask source gpu about job 4711: broken"},
		{"gpu", source.Local{Mapping: lost}, "ask source gpu about job 4711: the node has no GPU that can be found"},
		{"node", source.Local{Mapping: fails, CPUs: func() (int, error) { return 1, nil }}, "ask source node about job 4711: broken"},
		{"node", source.Local{CPUs: func() (int, error) { return 0, broken }}, "ask source node about job 4711: broken"},
	} {
		cfg := config.Default()
		cfg.Slurm.Source = []string{c.source}
		_, _, err := source.Ask(t.Context(), whole, cfg, c.local)
		if err == nil || err.Error() != c.err {
			t.Errorf("source %s: error %v, want %s", c.source, err, c.err)
		}
	}
}

// askUnheard asks about a job on a node for which slurm.conf counts NICs; slurmctld says what it has.
func askUnheard(t *testing.T, sources []string, says string) ([]gres.Want, []string, error) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	write(t, conf, "SlurmctldHost=ctl\nNodeName=node[1-9] Gres=gpu:8,nic:4\n", 0o644)
	cfg := sitetest.Parse(t, site)
	cfg.Slurm.Source = sources
	cfg.Slurm.Scontrol, _ = scontrolThat(t, "cat <<'END'\n"+shown(4711, "node1", says)+"END\n")
	local := mapped(cfg)
	local.CPUs = func() (int, error) { return 16, nil }
	local.Threads = func() (int, error) { return 2, nil }
	local.Conf = func() (slurm.Conf, error) { return slurm.Read(os.DirFS("/"), conf) }
	return source.Ask(t.Context(), job.Job{ID: 4711, Node: "node1", Conf: conf}, cfg, local)
}

func TestAJobThatAsksForAGRESAndGetsNothingIsRefused(t *testing.T) {
	for says, want := range map[string]string{
		"nic:1(IDX:0)": "nic:1(IDX:0), which Slurm gave the job: no source of slurm.source gives what a job asks for",
		"hca(CNT:1)":   "hca:1, which Slurm gave the job: no source of slurm.source gives what a job asks for",
		"gpu:1(IDX:0)": "", "": "",
	} {
		_, _, err := askUnheard(t, []string{config.GPU, config.Node}, says)
		if want != "" {
			sitetest.Refusal(t, err, want)
		} else if err != nil {
			t.Errorf("%q: %v", says, err)
		}
	}
	if wants, _, err := askUnheard(t, []string{config.GPU, config.Scontrol}, "nic:1(IDX:0)"); err != nil || len(wants) != 1 {
		t.Errorf("by scontrol: %v, %v", wants, err)
	}
}
