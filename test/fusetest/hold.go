package fusetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/test/await"
)

const mapper = "mapper"

// init makes a test's program the process that Hold starts.
func init() {
	if os.Args[0] == mapper {
		if err := mapForEver(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
}

// mapForEver maps a file of a file server that answers no write, for which the kernel first
// writes back the page that was changed (fs/fuse/file.c:fuse_file_mmap), and meanwhile
// holds the lock of all that the process has mapped.
func mapForEver(path string) error {
	fd, err := unix.Open(path, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	page, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	page[0] = 1
	direct, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	_, err = unix.Mmap(direct, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE)
	return err
}

// Hold starts a user's process whose memory nobody can read until the test ends: program
// is /proc/self/exe, or a copy of it. A test that waits for it fails.
func Hold(t testing.TB, program string, uid uint32) {
	t.Helper()
	f := Mount(t, "none", Write)
	cmd := exec.Command(program)
	cmd.Args = []string{mapper, filepath.Join(f.Dir, File)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(await.Most(t), func() {
		t.Error("a process whose memory cannot be read is waited for")
		f.End()
	})
	t.Cleanup(func() {
		late.Stop()
		f.End()
		cmd.Process.Kill()
		cmd.Wait()
	})
	f.Await(t, Write)
}
