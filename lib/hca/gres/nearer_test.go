package gres_test

import (
	"reflect"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
)

func TestNICsBesideGPUsAreTheNearestFreeOnesOfTheTypesThatSlurmCounted(t *testing.T) {
	top := dgxA100.topology(t)
	typed := dgxA100.mapping(t)
	for i := range typed {
		typed[i].Type = []string{"hdr", "ndr"}[i%2]
	}
	for name, c := range map[string]struct {
		mapping gres.Mapping
		gpus    string
		slurm   []gres.Want
		held    string // indices
		want    []string
	}{
		"one of a switch with two":         {dgxA100.mapping(t), "6", []gres.Want{{Indices: []int{0}}}, "", []string{"4"}},
		"Slurm's, if it is as near":        {dgxA100.mapping(t), "6", []gres.Want{{Indices: []int{5}}}, "", []string{"5"}},
		"the other one of the switch":      {dgxA100.mapping(t), "6", []gres.Want{{Indices: []int{0}}}, "4", []string{"5"}},
		"further away, if none is free":    {dgxA100.mapping(t), "6", []gres.Want{{Indices: []int{0}}}, "4-5", []string{"6"}},
		"one for each of two GPUs":         {dgxA100.mapping(t), "4,6", []gres.Want{{Indices: []int{0, 1}}}, "4,6", []string{"5,7"}},
		"none twice":                       {dgxA100.mapping(t), "6", []gres.Want{{Indices: []int{0}}, {Indices: []int{1}}}, "", []string{"4", "5"}},
		"of its type":                      {typed, "6", []gres.Want{{Type: "ndr", Indices: []int{1}}}, "", []string{"5"}},
		"of the type of the index":         {typed, "6", []gres.Want{{Indices: []int{0, 2}}}, "", []string{"4,6"}},
		"no GPUs, and Slurm's is free":     {dgxA100.mapping(t), "", []gres.Want{{Indices: []int{3}}}, "0", []string{"3"}},
		"no GPUs, and Slurm's is not free": {dgxA100.mapping(t), "", []gres.Want{{Indices: []int{3}}}, "0,3", []string{"1"}},
		"too few are free":                 {dgxA100.mapping(t), "6", []gres.Want{{Indices: []int{0, 1}}}, "0-6", []string{"0-1"}},
		"no such index":                    {dgxA100.mapping(t), "6", []gres.Want{{Indices: []int{8}}}, "", []string{"8"}},
		"a type that the index has not":    {typed, "6", []gres.Want{{Type: "ndr", Indices: []int{0}}}, "", []string{"0"}},
		"what the site says":               {dgxA100.mapping(t), "6", []gres.Want{{Indices: []int{0}, Source: config.Fixed}}, "", []string{"0"}},
		"a count":                          {dgxA100.mapping(t), "6", []gres.Want{{Count: 1}}, "", []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			held := map[node.ID]bool{}
			for _, index := range parsed(t, c.held) {
				held[c.mapping[index].HCA.ID] = true
			}
			for i := range c.slurm {
				c.slurm[i].Gres = "nic"
				if c.slurm[i].Source == "" {
					c.slurm[i].Source = config.Scontrol
				}
			}
			near := top.Near(parsed(t, c.gpus))
			if c.gpus == "" {
				near = nil
			}
			var got []string
			for _, w := range gres.Nearer(c.slurm, c.mapping, func(id node.ID) (gres.Holder, bool) { return gres.Holder{}, held[id] }, near) {
				got = append(got, node.FormatIndices(w.Indices))
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Slurm has given each of the jobs an index of its own, whatever the others have by now.
func TestJobsThatGetOtherHCAsThanSlurmChoseNeverMeet(t *testing.T) {
	top, m := dgxA100.topology(t), dgxA100.mapping(t)
	held := map[node.ID]bool{}
	for slurms, gpu := range []int{6, 7, 4, 5, 2, 3, 0, 1} {
		hold := func(id node.ID) (gres.Holder, bool) { return gres.Holder{}, held[id] }
		wants := gres.Nearer([]gres.Want{{Gres: "nic", Indices: []int{slurms}, Source: config.Scontrol}}, m, hold, top.Near([]int{gpu}))
		got, err := gres.Choose(wants, m, hold, nil)
		if err != nil || len(got) != 1 || held[got[0].HCA.ID] {
			t.Fatalf("GPU %d: got %v, %v", gpu, got, err)
		}
		held[got[0].HCA.ID] = true
		if d := top.HCAs[got[0].HCA.ID].To(top.GPUs[gpu]); d.Level != node.SameSwitch {
			t.Errorf("GPU %d has %s, in whose %s it is", gpu, got[0].HCA.Name, d.Level)
		}
	}
}

func parsed(t *testing.T, list string) []int {
	t.Helper()
	if list == "" {
		return nil
	}
	all, err := node.ParseIndices(list)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
