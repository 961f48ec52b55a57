package part

import (
	"io/fs"
	"testing"
	"testing/fstest"
)

func TestASplitIsDoneWhenEachVFThatNoLeaseHasIsThere(t *testing.T) {
	link := func(target string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
	}
	const pf, devices = "0000:3b:00.0", "bus/pci/devices/"
	s := splitting{pf: pf, taken: map[int]bool{1: true}}
	sys := fstest.MapFS{
		devices + pf + "/virtfn0": link("../0000:3b:00.1"), devices + pf + "/virtfn1": link("../0000:3b:00.2"), devices + pf + "/virtfn2": link("../0000:3b:00.3"),
	}
	s.sys = sys
	for _, next := range []struct{ comes, missing string }{
		{"0000:3b:00.1/infiniband/mlx5_2", "the RDMA device of VF 0 (0000:3b:00.1)"},
		{"0000:3b:00.1/net/eth2", "the interface of VF 0 (0000:3b:00.1)"},
		{"0000:3b:00.3/infiniband/mlx5_3", "the RDMA device of VF 2 (0000:3b:00.3)"},
		{"0000:3b:00.3/net/eth3", "the interface of VF 2 (0000:3b:00.3)"},
	} {
		if missing, err := s.missing(3); err != nil || missing != next.missing {
			t.Errorf("%q is missing, %v; want %q", missing, err, next.missing)
		}
		sys[devices+next.comes] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	if missing, err := s.missing(3); err != nil || missing != "" {
		t.Errorf("%q is missing, %v", missing, err)
	}
}
