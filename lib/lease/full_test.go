package lease

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/test/netnstest"
	"gresnet/test/seed"
)

// smallState mounts a small file system for a node's state, and returns shell commands that fill it and free it again.
func smallState(t *testing.T) (state, fill, free string) {
	t.Helper()
	state = t.TempDir()
	if err := unix.Mount("small", state, "tmpfs", 0, "mode=0755,size=512k,nr_inodes=300"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return state, fmt.Sprintf(`mkdir %s/full; cat /dev/zero >%[1]s/full/zero 2>/dev/null || true; for i in $(seq 400); do touch %[1]s/full/$i 2>/dev/null || break; done`, state), fmt.Sprintf("rm -r %s/full", state)
}

func TestAFullFileSystemOfTheStateKeepsNoHCAFromTheNode(t *testing.T) {
	netnstest.Slow(t)
	step := 5
	if os.Getenv("GRESNET_TEST") == "long" {
		step = 1
	}
	b := wayBed(t)
	before := testPicture(b.node)
	for _, program := range []string{"prolog", "epilog"} {
		for look, filled := 1+seed.IntN(step), true; filled; look += step {
			state, fill, free := smallState(t)
			run := func(program string, more ...string) error {
				cmd := b.first.command(b.node, state, program, never)
				cmd.Env = append(cmd.Env, more...)
				out, err := cmd.CombinedOutput()
				if err != nil {
					err = fmt.Errorf("%w: %s", err, out)
				}
				return err
			}
			if program == "epilog" {
				b.first.run(t, b.node, state, "prolog", never)
			}
			failed := run(program, fmt.Sprintf("GRESNET_BED_AT=%d", look), "GRESNET_BED_THEN="+fill)
			_, err := os.Stat(filepath.Join(state, "full"))
			filled = err == nil
			again := run("epilog")
			t.Logf("%s, full at look %d: %v; the epilog: %v", program, look, failed, again)
			if diff := netnstest.Diff(before, testPicture(b.node)); diff != "" {
				t.Errorf("%s, full at look %d: the node is not as it was, before (-) and after (+):\n%s", program, look, diff)
			}
			if filled {
				if out, err := exec.Command("sh", "-ec", free).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			if err := run("epilog"); err != nil {
				t.Errorf("%s, full at look %d: an epilog with space again: %v", program, look, err)
			}
			testSame(t, b.node, state, before)
		}
	}
}
