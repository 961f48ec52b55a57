package gres_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/sysfs"
	"gresnet/test/sitetest"
)

// machine is a node's PCI tree: a line for each function says what it is, its
// NUMA node, and its path below /sys/devices.
type machine string

// dgxA100 is laid out after NVIDIA's DGX A100: four pairs of switches' ports,
// each with two GPUs and two HCAs. The GPUs' minor numbers do not follow
// their PCI addresses.
const dgxA100 machine = `
gpu0 0 pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:00.0/0000:07:00.0
hca0 0 pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:04.0/0000:0c:00.0
gpu1 0 pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:08.0/0000:0f:00.0
hca1 0 pci0000:00/0000:00:01.1/0000:01:00.0/0000:02:0c.0/0000:12:00.0
gpu2 0 pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:00.0/0000:47:00.0
hca2 0 pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:04.0/0000:4b:00.0
gpu3 0 pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:08.0/0000:4e:00.0
hca3 0 pci0000:40/0000:40:01.1/0000:41:00.0/0000:42:0c.0/0000:54:00.0
gpu6 1 pci0000:80/0000:80:01.1/0000:81:00.0/0000:82:00.0/0000:87:00.0
hca4 1 pci0000:80/0000:80:01.1/0000:81:00.0/0000:82:04.0/0000:8d:00.0
gpu7 1 pci0000:80/0000:80:01.1/0000:81:00.0/0000:82:08.0/0000:90:00.0
hca5 1 pci0000:80/0000:80:01.1/0000:81:00.0/0000:82:0c.0/0000:94:00.0
gpu4 1 pci0000:b0/0000:b0:01.1/0000:b1:00.0/0000:b2:00.0/0000:b7:00.0
hca6 1 pci0000:b0/0000:b0:01.1/0000:b1:00.0/0000:b2:04.0/0000:ba:00.0
gpu5 1 pci0000:b0/0000:b0:01.1/0000:b1:00.0/0000:b2:08.0/0000:bd:00.0
hca7 1 pci0000:b0/0000:b0:01.1/0000:b1:00.0/0000:b2:0c.0/0000:cc:00.0
`

// dgxH100 is laid out after a half of NVIDIA's DGX H100: each GPU has an HCA
// behind a switch of its own, and storage's HCAs share one with some.
const dgxH100 machine = `
hca0 0 pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0
gpu0 0 pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:1b:00.0
hca1 0 pci0000:26/0000:26:01.0/0000:29:00.0
hca2 0 pci0000:3c/0000:3c:01.0/0000:3d:00.0/0000:3e:00.0/0000:40:00.0
gpu1 0 pci0000:3c/0000:3c:01.0/0000:3d:00.0/0000:3e:01.0/0000:43:00.0
hca3 0 pci0000:4b/0000:4b:01.0/0000:4c:00.0/0000:4d:00.0/0000:4f:00.0
gpu2 0 pci0000:4b/0000:4b:01.0/0000:4c:00.0/0000:4d:01.0/0000:52:00.0
hca4 0 pci0000:5a/0000:5a:01.0/0000:5b:00.0/0000:5c:00.0/0000:5e:00.0
gpu3 0 pci0000:5a/0000:5a:01.0/0000:5b:00.0/0000:5c:01.0/0000:61:00.0
`

// fourAndFour is a node of one socket with four root complexes and no switch.
const fourAndFour machine = `
gpu0 3 pci0000:00/0000:00:01.1/0000:01:00.0
hca0 3 pci0000:00/0000:00:03.1/0000:03:00.0
gpu1 2 pci0000:40/0000:40:01.1/0000:41:00.0
hca1 2 pci0000:40/0000:40:03.1/0000:43:00.0
gpu2 1 pci0000:80/0000:80:01.1/0000:81:00.0
hca2 1 pci0000:80/0000:80:03.1/0000:83:00.0
gpu3 0 pci0000:c0/0000:c0:01.1/0000:c1:00.0
hca3 0 pci0000:c0/0000:c0:03.1/0000:c3:00.0
`

// eightAndFour has switches with two GPUs and an HCA each.
const eightAndFour machine = `
gpu0 0 pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:00.0/0000:1a:00.0
gpu1 0 pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:04.0/0000:1b:00.0
hca0 0 pci0000:16/0000:16:02.0/0000:17:00.0/0000:18:08.0/0000:1c:00.0
gpu2 0 pci0000:3a/0000:3a:02.0/0000:3b:00.0/0000:3c:00.0/0000:3d:00.0
gpu3 0 pci0000:3a/0000:3a:02.0/0000:3b:00.0/0000:3c:04.0/0000:3e:00.0
hca1 0 pci0000:3a/0000:3a:02.0/0000:3b:00.0/0000:3c:08.0/0000:3f:00.0
gpu4 1 pci0000:85/0000:85:02.0/0000:86:00.0/0000:87:00.0/0000:88:00.0
gpu5 1 pci0000:85/0000:85:02.0/0000:86:00.0/0000:87:04.0/0000:89:00.0
hca2 1 pci0000:85/0000:85:02.0/0000:86:00.0/0000:87:08.0/0000:8a:00.0
gpu6 1 pci0000:ae/0000:ae:02.0/0000:af:00.0/0000:b0:00.0/0000:b1:00.0
gpu7 1 pci0000:ae/0000:ae:02.0/0000:af:00.0/0000:b0:04.0/0000:b2:00.0
hca3 1 pci0000:ae/0000:ae:02.0/0000:af:00.0/0000:b0:08.0/0000:b3:00.0
`

// oneForAll has two sockets, and one HCA on the second.
const oneForAll machine = `
gpu0 0 pci0000:3a/0000:3a:00.0/0000:3b:00.0
gpu1 0 pci0000:5d/0000:5d:00.0/0000:5e:00.0
gpu2 1 pci0000:85/0000:85:00.0/0000:86:00.0
hca0 1 pci0000:ae/0000:ae:00.0/0000:af:00.0
gpu3 1 pci0000:d7/0000:d7:00.0/0000:d8:00.0
`

// socketsOnly has its HCAs on root complexes without GPUs: only the NUMA node tells.
const socketsOnly machine = `
gpu0 0 pci0000:3a/0000:3a:00.0/0000:3b:00.0
hca0 0 pci0000:17/0000:17:00.0/0000:18:00.0
gpu1 1 pci0000:85/0000:85:00.0/0000:86:00.0
hca1 1 pci0000:ae/0000:ae:00.0/0000:af:00.0
`

// nested has a switch behind a switch.
const nested machine = `
hca0 0 pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0
gpu0 0 pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:04.0/0000:05:00.0/0000:06:00.0/0000:07:00.0
hca1 0 pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:04.0/0000:05:00.0/0000:06:04.0/0000:08:00.0
`

// flat is a guest whose hypervisor shows no topology.
const flat machine = `
gpu0 -1 pci0000:00/0000:00:05.0
gpu1 -1 pci0000:00/0000:00:06.0
hca0 -1 pci0000:00/0000:00:07.0
hca1 -1 pci0000:00/0000:00:08.0
`

// lines goes through what a machine has.
func (m machine) lines(f func(what string, numa, dir string)) {
	for line := range strings.Lines(strings.TrimSpace(string(m))) {
		fields := strings.Fields(line)
		f(fields[0], fields[1], fields[2])
	}
}

// files returns the machine's /sys, and its /proc with NVIDIA's driver.
func (m machine) files() (sys, proc fs.FS) {
	s, p := fstest.MapFS{}, fstest.MapFS{}
	m.lines(func(what, numa, dir string) {
		pci := path.Base(dir)
		s["devices/"+dir+"/numa_node"] = &fstest.MapFile{Data: []byte(numa + "\n")}
		s["bus/pci/devices/"+pci] = &fstest.MapFile{Data: []byte("../../../devices/" + dir), Mode: fs.ModeSymlink}
		if minor, is := strings.CutPrefix(what, "gpu"); is {
			text := "Model: \t\t NVIDIA\nBus Location: \t " + pci + "\nDevice Minor: \t " + minor + "\nGPU Excluded:\t No\n"
			p["driver/nvidia/gpus/"+pci+"/information"] = &fstest.MapFile{Data: []byte(text)}
		}
	})
	return s, p
}

// mapping numbers the machine's HCAs in PCI order.
func (m machine) mapping(t *testing.T) gres.Mapping {
	t.Helper()
	var have []node.HCA
	m.lines(func(what, _, dir string) {
		if n, is := strings.CutPrefix(what, "hca"); is {
			have = append(have, node.HCA{ID: node.ID{GUID: "0002:c903:00ab:000" + n, PCI: path.Base(dir)}, Name: "mlx5_" + n})
		}
	})
	mapping, err := gres.Map(config.Default(), have)
	if err != nil {
		t.Fatal(err)
	}
	return mapping
}

func (m machine) topology(t *testing.T) gres.Topology {
	t.Helper()
	sys, proc := m.files()
	gpus, err := sysfs.GPUs(sys, proc)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(gpus, func(a, b sysfs.GPU) int { return a.Minor - b.Minor }) // the lines have Slurm's numbers
	top := gres.Topology{HCAs: map[node.ID]node.Location{}}
	for _, g := range gpus {
		top.GPUs = append(top.GPUs, g.Location)
	}
	for _, e := range m.mapping(t) {
		if top.HCAs[e.HCA.ID], err = sysfs.Locate(sys, e.HCA.ID.PCI); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func TestEachGPUIsServedByItsNearestHCA(t *testing.T) {
	for name, c := range map[string]struct {
		machine machine
		want    []string // GPUs of nic 0, nic 1, …
	}{
		"8 GPUs, 8 HCAs, two of each to a switch":  {dgxA100, []string{"0", "1", "2", "3", "6", "7", "4", "5"}},
		"4 GPUs, each with an HCA of its own":      {dgxH100, []string{"0", "", "1", "2", "3"}},
		"4 GPUs, 4 HCAs, no switch":                {fourAndFour, []string{"0", "1", "2", "3"}},
		"8 GPUs, 4 HCAs":                           {eightAndFour, []string{"0-1", "2-3", "4-5", "6-7"}},
		"2 sockets, 1 HCA":                         {oneForAll, []string{"0-3"}},
		"2 sockets, no root complex shared":        {socketsOnly, []string{"0", "1"}},
		"switches behind a switch":                 {nested, []string{"", "0"}},
		"a guest without topology deals them out":  {flat, []string{"0", "1"}},
		"more GPUs than HCAs in such a guest, too": {flat + "gpu2 -1 pci0000:00/0000:00:09.0\n", []string{"0-1", "2"}},
		"no GPU: nobody serves any":                {"hca0 0 pci0000:00/0000:00:07.0\n", []string{""}},
		"no HCA: nothing to serve":                 {"gpu0 0 pci0000:00/0000:00:07.0\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := c.machine.topology(t).Serve(c.machine.mapping(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range m {
				got = append(got, node.FormatIndices(e.GPUs))
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestASiteThatSaysWhichGPUsIsBelieved(t *testing.T) {
	m := oneForAll.mapping(t)
	m[0].GPUs = []int{2, 6}
	top, none := oneForAll.topology(t), oneForAll.topology(t)
	none.GPUs = nil
	for _, c := range []struct {
		gpus []int
		top  gres.Topology
	}{
		{[]int{6}, top},  // it is not where GPUs are looked for, and the site knows of it
		{[]int{3}, top},  // it is there, and has no HCA
		{[]int{7}, none}, // nobody can tell
	} {
		got, err := c.top.Serve(m, c.gpus)
		if err != nil || !reflect.DeepEqual(got[0].GPUs, []int{2, 6}) {
			t.Errorf("GPUs %v: got %v, %v", c.gpus, got, err)
		}
	}
	_, err := top.Serve(m, []int{2, 7})
	sitetest.Refusal(t, err, "the HCAs for GPUs 2,7: there is no GPU 7, the node has 4")
}

func TestServeLeavesTheMappingThatItWasGiven(t *testing.T) {
	m := eightAndFour.mapping(t)
	if _, err := eightAndFour.topology(t).Serve(m, nil); err != nil || m[0].GPUs != nil {
		t.Errorf("the mapping has GPUs %v, %v", m[0].GPUs, err)
	}
}

func TestAGPUThatTheNodeLacksIsTheJobsFault(t *testing.T) {
	_, err := socketsOnly.topology(t).Serve(socketsOnly.mapping(t), []int{0, 2})
	sitetest.Refusal(t, err, "the HCAs for GPUs 0,2: there is no GPU 2, the node has 2")
	none := socketsOnly.topology(t)
	none.GPUs = nil
	_, err = none.Serve(socketsOnly.mapping(t), []int{0})
	sitetest.Refusal(t, err, "the HCAs for GPUs 0: the node has no GPU that can be found")
	if m, err := none.Serve(nil, []int{0}); err != nil || len(m) != 0 {
		t.Errorf("on a node that has no HCA either: %v, %v", m, err)
	}
}

func TestAGPUOfGresConfThatTheKernelLacksIsTheJobsFaultAndServedByNone(t *testing.T) {
	top, m := socketsOnly.topology(t), socketsOnly.mapping(t)
	top.GPUs = []node.Location{top.GPUs[1], {NUMA: -1}, top.GPUs[0]}
	_, err := top.Serve(m, []int{1})
	sitetest.Refusal(t, err, "the HCAs for GPUs 1: there is no GPU 1, the node has 2")
	got, err := top.Serve(m, []int{0, 2})
	if err != nil || !reflect.DeepEqual(got[0].GPUs, []int{2}) || !reflect.DeepEqual(got[1].GPUs, []int{0}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestWhereAnEntryHasDriftedNobodyKnowsWhomTheOthersServe(t *testing.T) {
	m := append(socketsOnly.mapping(t), gres.Entry{Gres: "nic", Index: 2, Drift: errors.New("no such HCA")})
	top := socketsOnly.topology(t)
	if _, err := top.Serve(m, []int{0}); err == nil || err.Error() != "find the HCAs for GPUs 0: no such HCA" {
		t.Errorf("error %v", err)
	}
	if got, err := top.Serve(m, nil); err != nil || len(got[2].GPUs) != 0 {
		t.Errorf("for one who only looks: %v, %v", got, err)
	}
}

func TestWhereNothingTellsTheGPUsNumbersTheJobIsRefusedUnlessTheSiteSaysThem(t *testing.T) {
	m := socketsOnly.mapping(t)
	divided := socketsOnly.topology(t)
	divided.Unknown = hint.With(errors.New("number the GPUs: nobody knows"), "GN542 say it")
	_, err := divided.Serve(m, []int{0, 2})
	var refusal *gres.Refusal
	if !errors.As(err, &refusal) || err.Error() != "the HCAs for GPUs 0,2: number the GPUs: nobody knows" || refusal.Hint() != "GN542 say it" {
		t.Errorf("error %v", err)
	}
	if got, err := divided.Serve(m, nil); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("a job without GPUs: got %v, %v", got, err)
	}
	if got := divided.Near([]int{0, 1})(m[0].HCA.ID, m[1].HCA.ID); got != 0 {
		t.Errorf("one of two HCAs is said to be nearer: %d", got)
	}
	if got := divided.Nearest(m[0], []int{0, 1}); got != -1 {
		t.Errorf("the nearest GPU is said to be %d", got)
	}
	m[0].GPUs = []int{0, 1, 2}
	if got, err := divided.Serve(m, []int{0, 2}); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("the site says which: got %v, %v", got, err)
	}
}

func TestAnHCAWithoutAPlaceOnPCIServesNoGPU(t *testing.T) {
	m := socketsOnly.mapping(t)
	top := socketsOnly.topology(t)
	top.HCAs = maps.Clone(top.HCAs)
	delete(top.HCAs, m[0].HCA.ID)
	got, err := top.Serve(m, nil)
	if err != nil || len(got[0].GPUs) != 0 || !reflect.DeepEqual(got[1].GPUs, []int{0, 1}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestCountsAreFilledFromTheHCAsNearestToTheJobsGPUs(t *testing.T) {
	for _, c := range []struct {
		machine machine
		gpus    []int
		count   int
		held    []int // HCAs
		want    []string
	}{
		{dgxA100, []int{4}, 1, nil, []string{"nic 6"}},
		{dgxA100, []int{4}, 2, nil, []string{"nic 6", "nic 7"}},
		{dgxA100, []int{4}, 3, nil, []string{"nic 4", "nic 6", "nic 7"}},
		{dgxA100, []int{4}, 1, []int{6}, []string{"nic 7"}},
		{dgxA100, []int{0, 6}, 4, nil, []string{"nic 0", "nic 1", "nic 4", "nic 5"}},
		{oneForAll, []int{0}, 1, nil, []string{"nic 0"}},
		{dgxA100, nil, 2, nil, []string{"nic 0", "nic 1"}},
		{dgxA100, []int{99}, 2, nil, []string{"nic 0", "nic 1"}},
	} {
		m := c.machine.mapping(t)
		held := func(id node.ID) (gres.Holder, bool) {
			for _, h := range c.held {
				if m[h].HCA.ID == id {
					return gres.Holder{}, true
				}
			}
			return gres.Holder{}, false
		}
		entries, err := gres.Choose([]gres.Want{{Gres: "nic", Count: c.count}}, m, held, c.machine.topology(t).Near(c.gpus))
		var got []string
		for _, e := range entries {
			got = append(got, fmt.Sprint(e))
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%d near GPUs %v, %v held: got %q, %v, want %q", c.count, c.gpus, c.held, got, err, c.want)
		}
	}
}

func TestCountsAreFilledFromTheHCAsWithMostOfTheJobsCores(t *testing.T) {
	cores := map[int][]int{0: {0, 1, 2, 3}, 1: {4, 5, 6, 7}}
	for _, c := range []struct {
		machine machine
		has     []int
		want    string
	}{
		{dgxA100, []int{4, 5}, "nic 4, nic 5"},
		{dgxA100, []int{3, 4, 5}, "nic 4, nic 5"},
		{dgxA100, []int{0, 4}, "nic 0, nic 1"},
		{dgxA100, []int{9}, "nic 0, nic 1"},
		{socketsOnly, []int{7}, "nic 0, nic 1"}, // it wants two
		{flat, []int{7}, "nic 0, nic 1"},
	} {
		near := c.machine.topology(t).NearCores(c.has, cores)
		entries, err := gres.Choose([]gres.Want{{Gres: "nic", Count: 2}}, c.machine.mapping(t), heldIn(nil), near)
		if err != nil || names(entries) != c.want {
			t.Errorf("near cores %v: got %q, %v, want %q", c.has, names(entries), err, c.want)
		}
	}
}

func TestTheNearestOfAJobsGPUsIsOneThatTheHCAServesOrSitsBy(t *testing.T) {
	for name, c := range map[string]struct {
		machine machine
		gpus    []int
		want    []int // of nic 0, nic 1, …
	}{
		"all: as they were dealt out":         {dgxA100, []int{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 1, 2, 3, 6, 7, 4, 5}},
		"the other HCA's behind its switch":   {dgxA100, []int{1, 4}, []int{1, 1, 1, 1, 4, 4, 4, 4}},
		"an HCA that serves none":             {dgxH100, []int{1, 3}, []int{1, 1, 1, 1, 3}},
		"several: the lowest":                 {eightAndFour, []int{1, 2, 3}, []int{1, 2, 1, 1}},
		"no topology: the ones that it deals": {flat, []int{0, 1}, []int{0, 1}},
		"a GPU that the node lacks":           {socketsOnly, []int{1, 9}, []int{1, 1}},
		"no GPU":                              {dgxH100, nil, []int{-1, -1, -1, -1, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			top := c.machine.topology(t)
			m, err := top.Serve(c.machine.mapping(t), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, e := range m {
				got = append(got, top.Nearest(e, c.gpus))
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

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
