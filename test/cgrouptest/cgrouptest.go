// Package cgrouptest gives a test a place for pins of BPF, and tells it what is
// attached to a cgroup. It is for tests only.
package cgrouptest

import (
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"gresnet/test/netnstest"
)

// Pins mounts a file system for pins until the test ends, and returns where.
func Pins(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to load BPF programs")
	}
	dir := t.TempDir()
	if err := unix.Mount("bpf", dir, "bpf", 0, "mode=700"); err != nil {
		netnstest.Skip(t, "needs a kernel with BPF: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount the pins: %v", err)
		}
	})
	return dir
}

// DevicePrograms returns how many BPF programs decide about devices in a cgroup itself.
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
