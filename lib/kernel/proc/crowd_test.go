package proc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/proc"
	"gresnet/test/crowd"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
)

// A test's program is also a user's that has a device open.
func init() {
	node := os.Getenv("GRESNET_NODE")
	if node == "" {
		return
	}
	if err := hold(node, os.Getenv("GRESNET_CROWD")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println()
	time.Sleep(time.Hour)
}

// hold opens a device in a crowd, or in a thread with a table of its own.
func hold(node, text string) error {
	if text == "" {
		go openApart(node)
		time.Sleep(time.Hour)
	}
	c, err := crowd.Parse(text)
	if err != nil {
		return err
	}
	fd, err := unix.Open(node, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	return c.Gather(fd)
}

// openApart opens a device in a thread with a table of its own, in which Go's scheduler does not find what it
// needs: so the thread says that it has, and never comes back.
func openApart(node string) {
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_FILES)
	if err == nil {
		_, err = unix.Open(node, unix.O_RDWR, 0)
	}
	if err != nil {
		os.Exit(1)
	}
	line := []byte{'\n'}
	syscall.RawSyscall(unix.SYS_WRITE, 1, uintptr(unsafe.Pointer(&line[0])), 1)
	for {
		syscall.RawSyscall(unix.SYS_PAUSE, 0, 0, 0)
	}
}

// device makes a node of a device that any user may open, and no other program has open.
func device(t *testing.T) (node string, number proc.Number) {
	t.Helper()
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make device nodes")
	}
	dir, err := os.MkdirTemp("", "proctest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	node = filepath.Join(dir, "uverbs7")
	err = errors.Join(os.Chmod(dir, 0o755), unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 7))), os.Chmod(node, 0o666))
	if err != nil {
		t.Fatal(err)
	}
	return node, proc.Number{Major: 1, Minor: 7} // /dev/full
}

// holds starts a program of a user that has a device open, and returns its pid, which is its group's.
func holds(t *testing.T, node, text string, uid uint32) int {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GRESNET_NODE="+node, "GRESNET_CROWD="+text)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	standin.Start(t, cmd)
	t.Cleanup(func() {
		if err := unix.Kill(-cmd.Process.Pid, unix.SIGKILL); err != nil {
			t.Errorf("end the crowd: %v", err)
		}
	})
	return cmd.Process.Pid
}

// A user's processes, as many as they are, have few tables if they share them.
func TestATableOfDescriptorsIsLookedAtOnceHoweverManyShareIt(t *testing.T) {
	netnstest.Slow(t)
	node, number := device(t)
	_, before := openers(t, number)
	c := crowd.Crowd{Open: 4000, Share: 2500}
	pid := holds(t, node, c.String(), 65534)
	found, links := openers(t, number)
	if !slices.Contains(found, pid) || len(found) < c.Share {
		t.Errorf("found %d processes that have the device open, wanted %d and %d", len(found), pid, c.Share)
	}
	// Other programs come and go, and one of those that share may be gone when it is compared.
	if most := before + 10*c.Open; links > most {
		t.Errorf("%d links were read, wanted %d at most; without the crowd it is %d", links, most, before)
	}
}

func TestADeviceThatAThreadAloneHasOpenIsFound(t *testing.T) {
	node, number := device(t)
	pid := holds(t, node, "", 65534)
	if found, _ := openers(t, number); !slices.Contains(found, pid) {
		t.Errorf("found %v, wanted %d", found, pid)
	}
}

func TestALookThatIsNotOverInTimeIsGivenUp(t *testing.T) {
	proc.SetLookTimeout(t, 0)
	if _, err := proc.Inside("0:0", proc.NoUser); !errors.Is(err, detach.ErrHeldUp) {
		t.Errorf("it ends with %v", err)
	}
	if _, err := proc.Runs("slurmd"); !errors.Is(err, detach.ErrHeldUp) {
		t.Errorf("it ends with %v", err)
	}
}
