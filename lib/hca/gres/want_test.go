package gres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/test/sitetest"
)

// typed is nic 0-3: two of type a, one of type b, one of any; and hca 0.
func typed() gres.Mapping {
	return gres.Mapping{
		{Gres: "nic", Type: "a", Index: 0, HCA: sitetest.HCA(0)},
		{Gres: "nic", Type: "a", Index: 1, HCA: sitetest.HCA(1)},
		{Gres: "nic", Type: "b", Index: 2, HCA: sitetest.HCA(2)},
		{Gres: "nic", Index: 3, HCA: sitetest.HCA(3)},
		{Gres: "hca", Type: "x", Index: 0, HCA: sitetest.HCA(4)},
	}
}

func names(entries []gres.Entry) string {
	var out []string
	for _, e := range entries {
		out = append(out, e.String())
	}
	return strings.Join(out, ", ")
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name  string
		wants []gres.Want
		held  []int
		want  string
	}{
		{name: "nothing"},
		{name: "indices", wants: []gres.Want{{Gres: "nic", Indices: []int{0, 3}}}, want: "nic 0, nic 3"},
		{name: "an index if it is free", wants: []gres.Want{{Gres: "nic", Indices: []int{0, 1}, IfFree: true}}, held: []int{1}, want: "nic 0"},
		{name: "none free of those wanted if free", wants: []gres.Want{{Gres: "nic", Indices: []int{1}, IfFree: true}}, held: []int{1}},
		{name: "index with its type", wants: []gres.Want{{Gres: "nic", Type: "b", Indices: []int{2}}}, want: "nic 2"},
		{name: "index of an entry without a type", wants: []gres.Want{{Gres: "nic", Type: "b", Indices: []int{3}}}, want: "nic 3"},
		{name: "lowest of a count", wants: []gres.Want{{Gres: "nic", Count: 2}}, want: "nic 0, nic 1"},
		{name: "lowest that are free", wants: []gres.Want{{Gres: "nic", Count: 2}}, held: []int{0, 2}, want: "nic 1, nic 3"},
		{name: "count of a type", wants: []gres.Want{{Gres: "nic", Type: "a", Count: 1}}, held: []int{0}, want: "nic 1"},
		{name: "count of a type goes on to entries without one", wants: []gres.Want{{Gres: "nic", Type: "b", Count: 2}}, want: "nic 2, nic 3"},
		{name: "count of a type is first", wants: []gres.Want{{Gres: "nic", Count: 2}, {Gres: "nic", Type: "a", Count: 2}}, want: "nic 0, nic 1, nic 2, nic 3"},
		{name: "indices are before counts", wants: []gres.Want{{Gres: "nic", Count: 1}, {Gres: "nic", Indices: []int{0}}}, want: "nic 0, nic 1"},
		{name: "two names", wants: []gres.Want{{Gres: "hca", Type: "x", Count: 1}, {Gres: "nic", Count: 1}}, want: "nic 0, hca 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := gres.Choose(c.wants, typed(), heldIn(c.held), nil)
			if err != nil || names(got) != c.want {
				t.Errorf("got %q, %v, want %q", names(got), err, c.want)
			}
		})
	}
}

// heldIn has HCA n held by job n+1; sick ones are quarantined.
func heldIn(held []int, sick ...int) func(node.ID) (gres.Holder, bool) {
	return func(id node.ID) (gres.Holder, bool) {
		is := func(n int) bool { return sitetest.HCA(n).ID == id }
		if i := slices.IndexFunc(sick, is); i >= 0 {
			return gres.Holder{Job: uint32(sick[i] + 1), Quarantined: "it hangs"}, true
		}
		i := slices.IndexFunc(held, is)
		if i < 0 {
			return gres.Holder{}, false
		}
		return gres.Holder{Job: uint32(held[i] + 1), Since: time.Date(2026, 11, 21, 10, 31, 0, 0, time.UTC)}, true
	}
}

func TestChooseTellsWhoseFaultItIs(t *testing.T) {
	const has = "it has nic 0-1 (a), nic 2 (b), nic 3, hca 0 (x)"
	for _, c := range []struct {
		name string
		want gres.Want
		job  bool
		err  string
	}{
		{"an index beyond the mapping by policy", gres.Want{Gres: "nic", Indices: []int{2, 4}, Source: "policy"}, true,
			"nic:2(IDX:2,4), which source policy says the job has: this node has no nic 4; " + has},
		{"a count beyond the mapping by program", gres.Want{Gres: "nic", Count: 5, Source: "program"}, true,
			"nic:5, which source program says the job has: this node has 4; " + has},
		{"a GRES that the mapping lacks", gres.Want{Gres: "ib", Count: 1, Source: "scontrol"}, true,
			"ib:1, which source scontrol says the job has: this node has no such GRES; " + has},
		{"a type that the mapping lacks", gres.Want{Gres: "hca", Type: "y", Count: 1, Source: "scontrol"}, true,
			"hca:y:1, which source scontrol says the job has: this node has no such GRES; " + has},
		{"an index that Slurm chose beyond the mapping", gres.Want{Gres: "nic", Indices: []int{2, 4}, Source: "scontrol"}, false,
			"choose nic:2(IDX:2,4), which Slurm gave the job: this node has no nic 4; " + has},
		{"a count of Slurm's beyond the mapping", gres.Want{Gres: "nic", Count: 5, Source: "scontrol"}, false,
			"choose nic:5, which Slurm gave the job: this node has 4; " + has},
		{"an index of another type", gres.Want{Gres: "nic", Type: "b", Indices: []int{0}, Source: "scontrol"}, false,
			"choose nic:b:1(IDX:0): Slurm says that nic 0 is of type b, the configuration says a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := gres.Choose([]gres.Want{c.want}, typed(), heldIn(nil), nil)
			if len(got) != 0 {
				t.Errorf("chose %q", names(got))
			}
			if c.job {
				sitetest.Refusal(t, err, c.err)
			} else {
				sitetest.Fault(t, err, c.err)
			}
		})
	}
}

func TestANodeWithoutAnyHCAIsAtFaultForWhatSlurmGives(t *testing.T) {
	_, err := gres.Choose([]gres.Want{{Gres: "nic", Count: 1, Source: "scontrol"}}, nil, heldIn(nil), nil)
	sitetest.Fault(t, err, "choose nic:1, which Slurm gave the job: this node has no such GRES; it has none")
	_, err = gres.Choose([]gres.Want{{Gres: "nic", Count: 1, Source: "policy"}}, nil, heldIn(nil), nil)
	sitetest.Refusal(t, err, "nic:1, which source policy says the job has: this node has no such GRES; it has none")
}

// Types that the mapping lacks are any HCA's: the counts of two can come to more than there is.
func TestCountsThatTogetherAreBeyondWhatTheNodeHas(t *testing.T) {
	untyped := gres.Mapping{{Gres: "nic", HCA: sitetest.HCA(0)}, {Gres: "nic", Index: 1, HCA: sitetest.HCA(1)}, {Gres: "nic", Index: 2, HCA: sitetest.HCA(2)}}
	two := func(source string, held ...int) error {
		_, err := gres.Choose([]gres.Want{{Gres: "nic", Type: "a", Count: 2, Source: source}, {Gres: "nic", Type: "b", Count: 2, Source: source}},
			untyped, heldIn(held), nil)
		return err
	}
	const why = "this node has 3, and 2 of them are counted for the job already; it has nic 0-2"
	sitetest.Refusal(t, two("program"), "nic:b:2, which source program says the job has: "+why)
	sitetest.Refusal(t, two("program", 2), "nic:b:2, which source program says the job has: "+why)
	sitetest.Fault(t, two("scontrol"), "choose nic:b:2, which Slurm gave the job: "+why)
}

func TestWhatOthersHoldOrIsQuarantinedIsTheJobsFault(t *testing.T) {
	const one, sick = "job 2 has it since 2026-11-21 10:31:00", "it is quarantined since job 3: it hangs"
	for _, c := range []struct {
		name       string
		want       gres.Want
		held, sick []int
		reason     gres.Reason
		err        string
		by         int // holders who may return it
	}{
		{"a count of Slurm's", gres.Want{Gres: "nic", Count: 4, Source: "scontrol"}, []int{1}, nil, gres.HeldByJobs,
			"nic:4, which source scontrol says the job has: 3 of 4 are free here; mlx5_1 (nic 1): " + one, 1},
		{"a count by policy", gres.Want{Gres: "nic", Count: 4, Source: "policy"}, []int{1}, nil, gres.HeldByJobs,
			"nic:4, which source policy says the job has: 3 of 4 are free here; mlx5_1 (nic 1): " + one, 1},
		{"a count by program, an HCA of which is sick", gres.Want{Gres: "nic", Count: 4, Source: "program"}, nil, []int{2}, gres.Quarantined,
			"nic:4, which source program says the job has: 3 of 4 are free here; mlx5_2 (nic 2): " + sick, 1},
		{"a count by program that would not do with the sick one, either", gres.Want{Gres: "nic", Count: 4, Source: "program"}, []int{1}, []int{2}, gres.HeldByJobs,
			"nic:4, which source program says the job has: 2 of 4 are free here; mlx5_1 (nic 1): " + one + "; mlx5_2 (nic 2): " + sick, 2},
		{"an index of Slurm's", gres.Want{Gres: "nic", Indices: []int{0, 1}, Source: "scontrol"}, []int{1}, nil, gres.HeldByJobs,
			"nic:2(IDX:0-1), which source scontrol says the job has: mlx5_1 (nic 1): " + one, 1},
		{"an index by GPU", gres.Want{Gres: "nic", Indices: []int{1}, Source: "gpu"}, []int{1}, nil, gres.HeldByJobs,
			"nic:1(IDX:1), which source gpu says the job has: mlx5_1 (nic 1): " + one, 1},
		{"an index of a node that the job has to itself", gres.Want{Gres: "nic", Indices: []int{0, 1}, Source: "node"}, []int{1}, nil, gres.HeldByJobs,
			"nic:2(IDX:0-1), which source node says the job has: mlx5_1 (nic 1): " + one, 1},
		{"an index by policy", gres.Want{Gres: "nic", Indices: []int{1}, Source: "policy"}, []int{1}, nil, gres.HeldByJobs,
			"nic:1(IDX:1), which source policy says the job has: mlx5_1 (nic 1): " + one, 1},
		{"an index by policy that is sick", gres.Want{Gres: "nic", Indices: []int{2}, Source: "policy"}, nil, []int{2}, gres.Quarantined,
			"nic:1(IDX:2), which source policy says the job has: mlx5_2 (nic 2): " + sick, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := gres.Choose([]gres.Want{c.want}, typed(), heldIn(c.held, c.sick...), nil)
			sitetest.Refusal(t, err, c.err)
			var refusal *gres.Refusal
			if errors.As(err, &refusal) && refusal.Reason != c.reason {
				t.Errorf("refused for %s, want %s", refusal.Reason, c.reason)
			}
			var taken *gres.Taken
			if len(got) != 0 || !errors.As(err, &taken) || len(taken.By) != c.by {
				t.Errorf("chose %q, %+v", names(got), err)
			}
		})
	}
}
