package host

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/lease/event"
	"gresnet/lib/state"
	"gresnet/test/sitetest"
)

// sockets is a /sys of two sockets, each with one core of two threads and one PCI function.
func sockets() fstest.MapFS {
	sys := fstest.MapFS{"devices/system/cpu/online": {Data: []byte("0-3\n")}}
	for cpu := range 4 {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		sys[dir+"physical_package_id"] = &fstest.MapFile{Data: fmt.Appendln(nil, cpu%2)}
		sys[dir+"core_id"] = &fstest.MapFile{Data: []byte("0\n")}
	}
	for i, pci := range []string{"0000:10:00.0", "0000:90:00.0"} {
		above := "devices/pci0000:" + pci[5:7] + "/" + pci
		sys[above+"/numa_node"] = &fstest.MapFile{Data: fmt.Appendln(nil, i)}
		sys["bus/pci/devices/"+pci] = &fstest.MapFile{Data: []byte("../../../" + above), Mode: fs.ModeSymlink}
		sys[fmt.Sprintf("devices/system/node/node%d/cpulist", i)] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d,%d\n", i, i+2)}
	}
	return sys
}

func TestAJobWithoutGPUsHasItsCountsFilledNearItsCores(t *testing.T) {
	cfg := sitetest.Parse(t, "")
	var log []string
	n := &Host{State: state.Dir(t.TempDir()), Sys: sockets(), Proc: fstest.MapFS{}, Config: cfg, Log: func(e event.Event) { log = append(log, e.Notice) }}
	first, second := node.ID{GUID: "a", PCI: "0000:10:00.0"}, node.ID{GUID: "b", PCI: "0000:90:00.0"}
	m := gres.Mapping{{Gres: "nic", HCA: node.HCA{ID: first}}, {Gres: "nic", Index: 1, HCA: node.HCA{ID: second}}}
	nearer := func(gpus, cores []int) int {
		t.Helper()
		near, _, err := n.near(job.Job{ID: 2, GPUs: gpus}, m, []gres.Want{{Gres: "nic", Count: 1, Cores: cores}})
		if err != nil {
			t.Fatal(err)
		}
		if near == nil {
			return 0
		}
		return near(first, second)
	}
	for _, c := range []struct {
		gpus, cores []int
		first       bool
	}{
		{nil, []int{0}, true}, {nil, []int{1}, false}, {[]int{0}, []int{0}, true}, {[]int{0}, []int{1}, false}, // of a GPU that cannot be found
	} {
		if got := nearer(c.gpus, c.cores); got == 0 || got < 0 != c.first {
			t.Errorf("GPUs %v, cores %v: %d", c.gpus, c.cores, got)
		}
	}
	if threads, err := n.Local(n.Mapping).Threads(); err != nil || threads != 2 {
		t.Errorf("%d threads, %v", threads, err)
	}
	if got := nearer(nil, nil); got != 0 {
		t.Errorf("of nothing known: %d", got)
	}
	delete(n.Sys.(fstest.MapFS), "devices/system/cpu/online")
	if got := nearer(nil, []int{1}); got != 0 {
		t.Errorf("where no core can be found: %d", got)
	}
	if !slices.ContainsFunc(log, func(line string) bool {
		return strings.HasPrefix(line, "HCAs are chosen without regard to the job's CPUs: list CPUs: ")
	}) {
		t.Errorf("logged %q", log)
	}
}
