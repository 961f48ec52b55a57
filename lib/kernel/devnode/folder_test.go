package devnode_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"gresnet/lib/kernel/devnode"
	"gresnet/test/netnstest"
)

func modeOf(t *testing.T, path string) (fs.FileMode, time) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm(), time(info.Sys().(*syscall.Stat_t).Ctim)
}

type time syscall.Timespec

func TestAFolderIsRestrictedAndOpenedAgainByWhoRestrictedIt(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: a folder that is restricted is root's")
	}
	dir := t.TempDir()
	for _, c := range []struct {
		name   string
		before fs.FileMode // 0: it is not there
	}{{"made", 0}, {"kernel's", 0o755}, {"open", 0o777}, {"restricted", 0o700}} {
		path := filepath.Join(dir, c.name)
		if c.before != 0 {
			if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, c.before)); err != nil {
				t.Fatal(err)
			}
		}
		folder := devnode.Folder(path)
		if err := folder.Open(); err != nil {
			t.Errorf("%s: open what nobody restricted: %v", c.name, err)
		}
		if c.before != 0 {
			if mode, _ := modeOf(t, path); mode != c.before {
				t.Errorf("%s: what nobody restricted is %o, was %o", c.name, mode, c.before)
			}
		}
		if err := folder.Restrict(); err != nil {
			t.Fatal(err)
		}
		mode, changed := modeOf(t, path)
		if mode != 0o700 {
			t.Errorf("%s: restricted, it is %o", c.name, mode)
		}
		// drivers/base/devtmpfs.c:dev_rmdir removes what the kernel made and is empty.
		if err := os.Remove(path); !errors.Is(err, syscall.ENOTEMPTY) {
			t.Errorf("%s: the folder can be removed: %v", c.name, err)
		}
		if err := folder.Restrict(); err != nil {
			t.Errorf("%s: restrict it once more: %v", c.name, err)
		}
		if mode, again := modeOf(t, path); mode != 0o700 || again != changed {
			t.Errorf("%s: what was restricted already was changed", c.name)
		}
		for range 2 {
			if err := folder.Open(); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			if mode, _ := modeOf(t, path); mode != 0o755 {
				t.Errorf("%s: opened, it is %o", c.name, mode)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Errorf("%s: something is left in it: %v", c.name, err)
		}
	}
}

func TestOnlyAFolderIsRestricted(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(target, 0o755), os.Symlink(target, link)); err != nil {
		t.Fatal(err)
	}
	if err := devnode.Folder(link).Restrict(); err == nil {
		t.Error("a symbolic link was followed")
	}
	if mode, _ := modeOf(t, target); mode != 0o755 {
		t.Errorf("its target is %o", mode)
	}
	if err := devnode.Folder(filepath.Join(dir, "no", "folder")).Restrict(); err != nil {
		t.Errorf("a node without a /dev: %v", err)
	}
}
