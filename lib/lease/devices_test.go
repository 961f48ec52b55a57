package lease

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/kernel/bpf"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/state"
	"gresnet/test/netnstest"
)

func TestAfterAnUndoNoRunRestrictsDeviceNodesAndWithALeaseThereIsNoUndo(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make device nodes")
	}
	dev := filepath.Join(t.TempDir(), "dev")
	if err := os.Mkdir(dev, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := state.MountDevices(dev); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = state.Unmount(dev) })
	if err := devnode.Make(filepath.Join(dev, "rdma_cm"), 1, 3, devnode.Access{Mode: 0o666}); err != nil {
		t.Fatal(err)
	}
	n := On(&host.Host{State: state.Dir(filepath.Join(t.TempDir(), "gresnet")), Dev: dev, Sys: fstest.MapFS{}, Guard: bpf.Guard{Pins: filepath.Join(t.TempDir(), "bpf")}, Proc: os.DirFS("/proc"), Config: config.Config{Access: config.Access{Host: config.Closed}}, Now: time.Now, Log: func(event.Event) {}})
	rules := func([]string) (bool, error) { return true, nil }
	is := func(what string, mode uint32) {
		t.Helper()
		if now, err := devnode.Stat(filepath.Join(dev, "rdma_cm")); err != nil || now.Mode != mode {
			t.Fatalf("%s: rdma_cm is %o, wanted %o: %v", what, now.Mode, mode, err)
		}
	}
	had, err := n.Picture()
	if err == nil {
		err = n.RestrictNodes(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	is("a prolog has run", 0o600)

	if err := os.MkdirAll(string(n.State.Lease(4711)), 0o700); err != nil {
		t.Fatal(err)
	}
	prolog, err := state.LockJob(t.Context(), n.State.Locks(), 4711)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Reopen(t.Context(), had, rules); err == nil || !strings.Contains(err.Error(), "4711") {
		t.Errorf("returned under a lease: %v", err)
	}
	is("a job has a lease", 0o600)
	if err := os.Remove(string(n.State.Lease(4711))); err != nil {
		t.Fatal(err)
	}
	// A prolog that had begun takes its lease while device nodes are returned.
	late := devnode.Picture{Folder: had.Folder}
	begins := func([]string) (bool, error) { return false, os.Mkdir(string(n.State.Lease(4711)), 0o700) }
	n.Sys = fstest.MapFS{"class/misc/rdma_cm/uevent": &fstest.MapFile{Data: []byte("DEVMODE=0666\n")}}
	if err := n.Reopen(t.Context(), late, begins); err == nil || !strings.Contains(err.Error(), "4711") {
		t.Errorf("returned though a job has begun meanwhile: %v", err)
	}
	is("a job has begun meanwhile", 0o600)
	if err := os.Remove(string(n.State.Lease(4711))); err != nil {
		t.Fatal(err)
	}
	if err := prolog.Remove(); err != nil {
		t.Fatal(err)
	}

	if err := n.Reopen(t.Context(), had, rules); err != nil {
		t.Fatal(err)
	}
	is("returned", 0o666)
	if err := n.RestrictNodes(t.Context()); err != nil { // of a slurmd that was not restarted
		t.Fatal(err)
	}
	is("a prolog has run after the undo", 0o666)
	if err := n.Redo(); err != nil {
		t.Fatal(err)
	}
	if err := n.RestrictNodes(t.Context()); err != nil {
		t.Fatal(err)
	}
	is("set up again", 0o600)
}
