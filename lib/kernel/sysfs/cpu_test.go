package sysfs_test

import (
	"fmt"
	"reflect"
	"testing"

	"gresnet/lib/kernel/sysfs"
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
	want := map[int][]int{0: {0, 1}, 1: {2, 3}, 2: nil}
	if got, err := sysfs.Cores(sys, 0, 1, 2); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := sysfs.Threads(sys); err != nil || got != 2 {
		t.Errorf("each core has %d threads, %v", got, err)
	}
	if _, err := sysfs.Cores(sys, 9); err == nil {
		t.Error("a NUMA node that is not there has cores")
	}
}
