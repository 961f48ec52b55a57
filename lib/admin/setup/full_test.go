package setup

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/netnstest"
)

// small mounts a file system with few files at a folder.
func small(t *testing.T, folder string, files int, data string) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("small", folder, "tmpfs", 0, fmt.Sprintf("mode=0755,size=%s,nr_inodes=%d", data, files+1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(folder, unix.MNT_DETACH) })
}

func TestWhatSetupDidUntilItsFileSystemWasFullIsUndone(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: it mounts")
	}
	for _, data := range []string{"4k", "12k", "1m"} {
		for files, full := 1, true; full && files < 12; files++ {
			root := base().lay(t, rand.New(rand.NewPCG(8, 8)))
			store := root + "/var/lib/gresnet"
			small(t, store, files, data)
			n := Node{Root: root}
			before := picture(t, root)
			full = n.Do(Make(siteAt(root))) != nil
			undo(t, n, files)
			if changed := differ(before, picture(t, root)); changed != "" {
				t.Errorf("%s, %d files: %s", data, files, changed)
			}
		}
	}
}
