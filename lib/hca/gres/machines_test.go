package gres_test

import (
	"slices"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/sysfs"
	"gresnet/test/machines"
)

// topologyOf returns where a machine's GPUs and HCAs sit, and its mapping.
func topologyOf(t *testing.T, m machines.Machine) (gres.Topology, gres.Mapping) {
	t.Helper()
	have, err := sysfs.GPUs(m.Sys, m.Proc)
	if err != nil {
		t.Fatal(err)
	}
	top := gres.Topology{HCAs: map[node.ID]node.Location{}}
	top.GPUs, err = gres.SlurmGPUs{Detect: "nvml"}.Order(have)
	if err != nil {
		t.Fatal(err)
	}
	mapping, err := gres.Map(config.Default(), m.HCAs)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range mapping {
		if top.HCAs[e.HCA.ID], err = sysfs.Locate(m.Sys, e.HCA.ID.PCI); err != nil {
			t.Fatal(err)
		}
	}
	return top, mapping
}

// granted returns the HCAs that serve no other GPUs than a job's.
func granted(m gres.Mapping, gpus []int) (names []string) {
	for _, e := range m {
		others := slices.ContainsFunc(e.GPUs, func(g int) bool { return !slices.Contains(gpus, g) })
		if len(e.GPUs) > 0 && !others {
			names = append(names, e.HCA.Name)
		}
	}
	return names
}

func TestJobsOnRealMachinesGetTheHCAsNextToTheirGPUs(t *testing.T) {
	all, err := machines.All()
	if err != nil {
		t.Fatal(err)
	}
	for name, machine := range all {
		t.Run(name, func(t *testing.T) {
			top, mapping := topologyOf(t, machine)
			served, err := top.Serve(mapping, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(machine.Jobs) == 0 {
				t.Error("the layout has no job")
			}
			for _, j := range machine.Jobs {
				if got := granted(served, j.GPUs); !slices.Equal(got, j.HCAs) {
					t.Errorf("GPUs %s: got %q, want %q", node.FormatIndices(j.GPUs), got, j.HCAs)
				}
			}
		})
	}
}
