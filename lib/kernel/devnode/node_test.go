package devnode_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gresnet/lib/kernel/devnode"
	"gresnet/lib/state"
	"gresnet/test/netnstest"
)

// nodes returns a directory where device nodes work.
func nodes(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make device nodes")
	}
	dir := filepath.Join(t.TempDir(), "dev")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := state.MountDevices(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := state.Unmount(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestANodeHasTheAccessThatItWasGiven(t *testing.T) {
	null := filepath.Join(nodes(t), "null")
	for i, want := range []devnode.Access{{Mode: 0o600, UID: 1000, GID: 100}, {Mode: 0o666}, {Mode: 0o600}, {Mode: 0o660, GID: 7}} {
		var err error
		if i == 0 {
			err = devnode.Make(null, 1, 3, want)
		} else {
			err = devnode.Set(null, want)
		}
		if err != nil {
			t.Fatal(err)
		}
		if have, err := devnode.Stat(null); err != nil || have != want {
			t.Errorf("access %+v, %v, wanted %+v", have, err, want)
		}
	}
	if err := os.WriteFile(null, []byte("x"), 0); err != nil {
		t.Errorf("the node does not work: %v", err)
	}
}

func TestOnlyCharacterDevicesAreTouched(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if err := devnode.Set(path, devnode.Access{Mode: 0o600}); err == nil {
			t.Errorf("%s was changed", path)
		}
	}
	if _, err := devnode.Stat(filepath.Join(dir, "missing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat of a missing node: %v", err)
	}
}
