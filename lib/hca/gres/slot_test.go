package gres_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/test/sitetest"
)

// slots maps two HCAs in four slots each.
func slots(t *testing.T) gres.Mapping {
	t.Helper()
	const text = "[[hca]]\nindex = 0\npart = \"macvlan\"\ncount = 4\nmatch = \"rdma=mlx5_0\"\nnetwork = \"10.64.0.0/16\"\n" +
		"[[hca]]\nindex = 4\npart = \"shared\"\ncount = 4\nmatch = \"rdma=mlx5_1\"\n"
	m, err := gres.Map(sitetest.Parse(t, text), sitetest.HCAs(3))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestAnHCAInSlotsMakesAnEntryForEachAndIsNoOtherEntrys(t *testing.T) {
	m := slots(t)
	if len(m) != 8 {
		t.Fatalf("got %s", m)
	}
	for i, e := range m {
		whole := sitetest.HCA(i / 4)
		if e.Index != i || e.Slot == nil || e.Slot.Number != i%4 || e.Slot.Of != 4 || e.Place != i/4 || !e.Keep || e.HCA.ID.Whole() != whole.ID || e.HCA.ID == whole.ID {
			t.Errorf("entry %d is %+v, %+v", i, e, e.Slot)
		}
	}
	twice := "[[hca]]\nindex = 0\npart = \"macvlan\"\ncount = 4\nmatch = \"rdma=mlx5_0\"\n[[hca]]\nindex = 4\nmatch = \"guid=" + sitetest.HCA(0).ID.GUID + "\"\n"
	_, err := gres.Map(sitetest.Parse(t, twice), sitetest.HCAs(1))
	sitetest.Fault(t, err, "map nic 4 (guid=0002:c903:00ab:0000): it is mlx5_0 (0002:c903:00ab:0000@0000:10:00.0), which nic 0 is already")
}

func TestTheOnlySlotForAPartitionIsTheWholeHCAInExclusiveMode(t *testing.T) {
	table := func(hca int, part string, count int, more string) string {
		return fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=mlx5_%d\"\npart = %q\ncount = %d\n%s", hca*10, hca, part, count, more)
	}
	const key = "pkey = 0x8001\nnetwork = \"10.64.0.0/16\"\n"
	text := table(0, "pkey", 1, key+"gpus = [2, 0]\n") + table(1, "pkey", 1, key+"interface = \"keep\"\n") + table(2, "pkey", 2, key) + table(3, "macvlan", 1, "")
	shared, err := gres.Map(sitetest.Parse(t, text), sitetest.HCAs(4))
	if err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(shared)
	exclusive := shared.InExclusiveMode()
	if !reflect.DeepEqual(shared, before) {
		t.Error("it changes the mapping that it is asked about")
	}
	for i, e := range exclusive {
		whole := i < 2
		if (e.Slot == nil) != whole || (e.HCA.ID.Slot == "") != whole || e.Keep != (i > 0) || whole && (e.PKey != 0x8001 || !e.Network.IsValid() || e.Place != i || e.Part != "pkey") {
			t.Errorf("entry %d is %+v", i, e)
		}
	}
	if gpus := exclusive[0].GPUs; !slices.Equal(gpus, []int{0, 2}) {
		t.Errorf("it serves GPUs %v", gpus)
	}
}

func TestACountTakesSlotsOfDifferentHCAsFirstAndThenOfThoseWithFewestJobs(t *testing.T) {
	m := slots(t)
	for _, c := range []struct {
		count int
		held  []int
		want  string
	}{
		{1, nil, "nic 0"},
		{2, nil, "nic 0, nic 4"},
		{3, nil, "nic 0, nic 1, nic 4"},
		{1, []int{0}, "nic 4"},
		{1, []int{0, 4}, "nic 1"},
		{1, []int{0, 1, 4}, "nic 5"},
		{2, []int{4, 5, 6, 7}, "nic 0, nic 1"},
	} {
		held := func(id node.ID) (gres.Holder, bool) {
			for _, n := range c.held {
				if m[n].HCA.ID.Overlaps(id) {
					return gres.Holder{Job: 7}, true
				}
			}
			return gres.Holder{}, false
		}
		got, err := gres.Choose([]gres.Want{{Gres: "nic", Count: c.count}}, m, held, nil)
		if err != nil || names(got) != c.want {
			t.Errorf("%d, held are %v: got %q, %v, want %q", c.count, c.held, names(got), err, c.want)
		}
	}
}

func TestAPoolWithoutLimitGivesEachJobTheLowestNumberThatIsFree(t *testing.T) {
	m, err := gres.Map(sitetest.Parse(t, "[[hca]]\nindex = 0\npart = \"shared\"\nmatch = \"rdma=mlx5_0\"\n"), sitetest.HCAs(1))
	if err != nil {
		t.Fatal(err)
	}
	var taken []node.ID
	held := func(id node.ID) (gres.Holder, bool) {
		return gres.Holder{Job: 7}, slices.ContainsFunc(taken, id.Overlaps)
	}
	for n := range 300 {
		got, err := gres.Choose([]gres.Want{{Gres: "nic", Indices: []int{0}}}, m, held, nil)
		if err != nil || len(got) != 1 {
			t.Fatalf("job %d: %v, %v", n, got, err)
		}
		e := got[0].Number(held)
		if e.Slot.Number != n {
			t.Fatalf("job %d has slot %d", n, e.Slot.Number)
		}
		taken = append(taken, e.HCA.ID)
	}
	taken = slices.Delete(taken, 5, 6)
	if e := m[0].Number(held); e.Slot.Number != 5 || m[0].Slot.Number != 0 {
		t.Errorf("got slot %d, and the mapping has %d", e.Slot.Number, m[0].Slot.Number)
	}
	taken = []node.ID{sitetest.HCA(0).ID}
	if _, err := gres.Choose([]gres.Want{{Gres: "nic", Count: 1, Source: "scontrol"}}, m, held, nil); err == nil || !strings.Contains(err.Error(), "job 7 has it") {
		t.Errorf("a job has the whole HCA: %v", err)
	}
}
