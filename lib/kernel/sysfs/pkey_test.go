package sysfs_test

import (
	"slices"
	"testing"
	"testing/fstest"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/sysfs"
)

func files(all map[string]string) fstest.MapFS {
	sys := fstest.MapFS{}
	for name, text := range all {
		sys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return sys
}

func TestATableOfPKeysIsReadToItsEnd(t *testing.T) {
	const dir = "class/infiniband/mlx5_0/ports/2/pkeys/"
	sys := files(map[string]string{dir + "0": "0xffff\n", dir + "1": "0x0000\n", dir + "2": "0x8001\n", dir + "10": "0x8002\n"})
	got, err := sysfs.PKeys(sys, "mlx5_0", 2)
	if err != nil || !slices.Equal(got, []node.PKey{0xffff, 0, 0x8001}) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, sys := range []fstest.MapFS{files(nil), files(map[string]string{dir + "0": "0xfffff\n"})} {
		if got, err := sysfs.PKeys(sys, "mlx5_0", 2); err == nil {
			t.Errorf("got %v", got)
		}
	}
}

func TestSELinuxEnforcesPKeysIfItEnforcesAndItsPolicyKnowsThem(t *testing.T) {
	const enforce, class = "fs/selinux/enforce", "fs/selinux/class/infiniband_pkey/perms/access"
	for _, c := range []struct {
		files map[string]string
		want  sysfs.SELinux
	}{
		{nil, sysfs.SELinux{}},
		{map[string]string{enforce: "0"}, sysfs.SELinux{}},
		{map[string]string{enforce: "1"}, sysfs.SELinux{Enforcing: true}},
		{map[string]string{enforce: "0", class: "1"}, sysfs.SELinux{PKeys: true}},
		{map[string]string{enforce: "1", class: "1"}, sysfs.SELinux{Enforcing: true, PKeys: true}},
	} {
		if got := sysfs.ReadSELinux(files(c.files)); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.files, got, c.want)
		}
	}
}
