package source_test

import (
	"context"
	"reflect"
	"slices"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
	"gresnet/test/sitetest"
)

const policies = `
[slurm]
source = ["policy"]
[[policy]]
partition = "debug"
count = 0
[[policy]]
partition = ["train", "long"]
account = "physics"
indices = [1, 2]
[[policy]]
qos = "high"
count = 4
[[policy]]
reservation = "maintenance"
type = "mlx5"
count = 1
[[policy]]
constraint = ["hdr", "ndr"]
count = 2
`

func TestEachThingOfAVFIsAsTheFirstPolicySaysThatFitsAndHasIt(t *testing.T) {
	c := sitetest.Parse(t, `
[[hca]]
index = 0
part = "vf"
count = 2
match = "pci=3b:00.0"
vf = {vlan = 7, max_rate = 100, trust = false}
[[policy]]
account = "physics"
vf = {vlan = 100}
[[policy]]
partition = "train"
vf = {vlan = 200, trust = true}
`)
	for _, tt := range []struct {
		job   job.Job
		vlan  int
		trust bool
	}{
		{job.Job{}, 7, false},
		{job.Job{Account: "physics"}, 100, false},
		{job.Job{Partition: "train"}, 200, true},
		{job.Job{Account: "physics", Partition: "train"}, 100, true},
	} {
		vf := source.VF(c, tt.job, c.HCAs[0].VF)
		if vf.VLAN.ID != tt.vlan || *vf.Trust != tt.trust || *vf.MaxRate != 100 || vf.MinRate != nil {
			t.Errorf("%+v: VLAN %d, trust %t, at most %d", tt.job, vf.VLAN.ID, *vf.Trust, *vf.MaxRate)
		}
	}
}

func TestTheFirstPolicyThatFitsAndHasAPKeySaysWhichAJobHas(t *testing.T) {
	c := config.Config{Policies: []config.Policy{
		{Account: []string{"physics"}, Isolation: config.IsolateNetwork},
		{Account: []string{"physics"}, PKey: 0x8002},
		{Partition: []string{"train"}, PKey: 0x8003},
	}}
	for _, tt := range []struct {
		job  job.Job
		own  node.PKey
		want node.PKey
	}{
		{job.Job{Account: "biology"}, 0x8001, 0x8001},
		{job.Job{Account: "biology"}, 0, 0},
		{job.Job{Account: "physics"}, 0x8001, 0x8002},
		{job.Job{Account: "physics", Partition: "train"}, 0, 0x8002},
		{job.Job{Account: "biology", Partition: "train"}, 0, 0x8003},
	} {
		if got := source.PKey(c, tt.job, tt.own); got != tt.want {
			t.Errorf("%+v: got %s, want %s", tt, got, tt.want)
		}
	}
}

func TestAutoGivesRDMACMToAJobThatHasTheNodeToItself(t *testing.T) {
	policies := []config.Policy{{Partition: []string{"train"}}, {Partition: []string{"storage"}, CM: config.CMYes}, {Partition: []string{"storage", "train"}, CM: config.CMNo}}
	whole, part, old := job.Share{Exclusive: "NODE"}, job.Share{Exclusive: "NO", CPUs: 16}, job.Share{CPUs: 16}
	for _, tt := range []struct {
		site, partition string
		share           job.Share
		want            bool
	}{
		{config.CMAuto, "debug", whole, true}, {config.CMAuto, "debug", part, false}, {config.CMAuto, "debug", old, true}, {config.CMAuto, "debug", job.Share{}, false},
		{config.CMYes, "debug", part, true}, {config.CMNo, "debug", whole, false},
		{config.CMAuto, "storage", part, true}, {config.CMYes, "train", whole, false},
	} {
		c := config.Config{Access: config.Access{CM: tt.site}, Policies: policies}
		if got := source.CM(c, job.Job{Partition: tt.partition, Share: tt.share}, 16); got != tt.want {
			t.Errorf("%+v: got %t", tt, got)
		}
	}
}

func TestTheFirstPolicyThatFitsCounts(t *testing.T) {
	want := func(w gres.Want) []gres.Want {
		w.Gres, w.Source = "nic", "policy"
		return []gres.Want{w}
	}
	const noQOS = "policy 3 goes by QOS, which Slurm does not say of the job"
	for _, c := range []struct {
		name  string
		job   job.Job
		wants []gres.Want
		notes []string
	}{
		{"none", job.Job{Partition: "debug", Features: []string{"hdr"}}, nil, []string{"policy 1 fits"}},
		{"a list", job.Job{Partition: "long", Account: "physics"}, want(gres.Want{Indices: []int{1, 2}}), []string{"policy 2 fits"}},
		{"a count", job.Job{Partition: "long", Account: "biology", QOS: "high"}, want(gres.Want{Count: 4}), []string{"policy 3 fits"}},
		{"a type", job.Job{Reservation: "maintenance"}, want(gres.Want{Type: "mlx5", Count: 1}), []string{noQOS, "policy 4 fits"}},
		{"a feature", job.Job{Partition: "train", Features: []string{"gpu", "ndr"}}, want(gres.Want{Count: 2}), []string{noQOS, "policy 5 fits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wants, notes, err := source.Ask(context.Background(), c.job, sitetest.Parse(t, policies), source.Local{})
			if err != nil || !reflect.DeepEqual(wants, c.wants) || !slices.Equal(notes, c.notes) {
				t.Errorf("got %+v, %q, %v,\nwant %+v, %q", wants, notes, err, c.wants, c.notes)
			}
		})
	}
}

func TestAJobThatNoPolicyFitsIsRefused(t *testing.T) {
	j := job.Job{ID: 4711, Partition: "train", Account: "biology", Features: []string{"edr"}}
	_, _, err := source.Ask(context.Background(), j, sitetest.Parse(t, policies), source.Local{})
	sitetest.Refusal(t, err, "job 4711 (partition train, account biology, constraint edr): no [[policy]] fits it")
	_, _, err = source.Ask(context.Background(), job.Job{ID: 4711}, sitetest.Parse(t, policies), source.Local{})
	sitetest.Refusal(t, err, "job 4711 (of which Slurm says nothing): no [[policy]] fits it")
}

func TestAnotherSourceMayKnowAJobThatNoPolicyFits(t *testing.T) {
	cfg := sitetest.Parse(t, policies)
	cfg.Slurm.Source = []string{"policy", "node"}
	j := job.Job{ID: 4711, Share: job.Share{Exclusive: "NODE"}}
	wants, _, err := source.Ask(context.Background(), j, cfg, mapped(cfg))
	if err != nil || len(wants) != 1 || wants[0].Source != "node" {
		t.Errorf("got %+v, %v", wants, err)
	}
}

func TestAJobThatHasTheNodeToItselfHasAllHCAs(t *testing.T) {
	cfg := sitetest.Parse(t, site)
	cfg.Slurm.Source = []string{"node"}
	all := []gres.Want{{Gres: "nic", Indices: []int{0, 1, 2}, Source: "node"}, {Gres: "hca", Indices: []int{0}, Source: "node"}}
	for _, c := range []struct {
		name  string
		share job.Share
		wants []gres.Want
	}{
		{"exclusive", job.Share{Exclusive: "NODE"}, all},
		{"all CPUs", job.Share{CPUs: 16}, all},
		{"shared", job.Share{Exclusive: "NO", CPUs: 16}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			wants, _, err := source.Ask(context.Background(), job.Job{ID: 1, Share: c.share}, cfg, mapped(cfg))
			if err != nil || !reflect.DeepEqual(wants, c.wants) {
				t.Errorf("got %+v, %v, want %+v", wants, err, c.wants)
			}
		})
	}
}
