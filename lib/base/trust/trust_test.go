package trust_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gresnet/lib/base/trust"
	"gresnet/test/netnstest"
)

func TestAPathResolvesIfRootAloneCanChangeWhereItLeads(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: only root's files are trusted")
	}
	for name, c := range map[string]struct {
		make func(dir string) error // of a path DIR/it that leads to DIR/file
		err  string                 // empty: it resolves
	}{
		"a file":          {func(dir string) error { return os.Rename(dir+"/file", dir+"/it") }, ""},
		"a link":          {func(dir string) error { return os.Symlink(dir+"/file", dir+"/it") }, ""},
		"a relative link": {func(dir string) error { return os.Symlink("../"+filepath.Base(dir)+"/./file", dir+"/it") }, ""},
		"a link's link": {func(dir string) error {
			return join(os.Symlink("file", dir+"/next"), os.Symlink("next", dir+"/it"))
		}, ""},
		"in a sticky folder": {func(dir string) error {
			return join(os.Chmod(dir, os.ModeSticky|0o777), os.Symlink("file", dir+"/it"))
		}, ""},
		"nothing":            {func(string) error { return nil }, "lstat DIR/it: no such file or directory"},
		"a link to itself":   {func(dir string) error { return os.Symlink("it", dir+"/it") }, "DIR/it leads through more than 40 symbolic links"},
		"a user's file":      {func(dir string) error { return join(os.Symlink("file", dir+"/it"), os.Chown(dir+"/file", 1000, -1)) }, "DIR/file: it is not root's"},
		"a user's link":      {func(dir string) error { return join(os.Symlink("file", dir+"/it"), os.Lchown(dir+"/it", 1000, -1)) }, "DIR/it: it is not root's"},
		"a user's folder":    {func(dir string) error { return join(os.Symlink("file", dir+"/it"), os.Chown(dir, 1000, -1)) }, "DIR: it is not root's"},
		"a file all write":   {func(dir string) error { return join(os.Symlink("file", dir+"/it"), os.Chmod(dir+"/file", 0o646)) }, "DIR/file: others than root may write it (-rw-r--rw-)"},
		"a folder all write": {func(dir string) error { return join(os.Symlink("file", dir+"/it"), os.Chmod(dir, 0o777)) }, "DIR: others than root may write it (drwxrwxrwx)"},
		"by a user's folder": {func(dir string) error { return join(users(dir), os.Symlink("users/../file", dir+"/it")) }, "DIR/users: it is not root's"},
		"a user's link on it": {func(dir string) error {
			return join(users(dir), os.Symlink("../file", dir+"/users/next"), os.Symlink("users/next", dir+"/it"))
		}, "DIR/users: it is not root's"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "dir")
			if err := join(os.Mkdir(dir, 0o755), os.WriteFile(dir+"/file", nil, 0o644), c.make(dir)); err != nil {
				t.Fatal(err)
			}
			got, err := trust.Resolve(dir + "/it")
			if c.err != "" {
				if err == nil || err.Error() != strings.ReplaceAll(c.err, "DIR", dir) {
					t.Errorf("%q, %v", got, err)
				}
				return
			}
			info, failed := os.Lstat(got)
			if err != nil || failed != nil || !info.Mode().IsRegular() {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func users(dir string) error {
	return join(os.Mkdir(dir+"/users", 0o755), os.Chown(dir+"/users", 1000, -1))
}

func join(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
