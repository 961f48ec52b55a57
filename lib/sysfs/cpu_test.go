package sysfs_test

import (
	"fmt"
	"reflect"
	"testing"

	"gresnet/lib/sysfs"
)

func TestCoresAreNumberedSocketBySocket(t *testing.T) {
	// Two sockets of two cores with two threads each, dealt out alternately, as
	// some firmwares do; the second threads come last.
	files := map[string]string{
		"devices/system/cpu/online":         "0-7\n",
		"devices/system/node/node0/cpulist": "0,2,4,6\n",
		"devices/system/node/node1/cpulist": "1,3,5,7\n",
		"devices/system/node/node2/cpulist": "\n", // memory without CPUs
	}
	for cpu := range 8 {
		dir := fmt.Sprintf("devices/system/cpu/cpu%d/topology/", cpu)
		files[dir+"physical_package_id"] = fmt.Sprintln(cpu % 2)
		files[dir+"core_id"] = fmt.Sprintln(cpu % 4 / 2)
	}
	sys := tree(t, nil, files)
	for numa, want := range [][]int{{0, 1}, {2, 3}, nil} {
		if got, err := sysfs.Cores(sys, numa); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("node %d: got %v, %v, want %v", numa, got, err, want)
		}
	}
	if _, err := sysfs.Cores(sys, 9); err == nil {
		t.Error("a NUMA node that is not there has cores")
	}
}
