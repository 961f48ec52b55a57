// Package cgrouptest tells a test what is attached to a cgroup. It is for tests
// only.
package cgrouptest

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// DevicePrograms is how many BPF programs decide about devices in a cgroup itself.
func DevicePrograms(t *testing.T, cgroup string) int {
	t.Helper()
	f, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := link.QueryPrograms(link.QueryOptions{Target: int(f.Fd()), Attach: ebpf.AttachCGroupDevice})
	if err != nil {
		t.Fatal(err)
	}
	return len(got.Programs)
}
