package netns_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netns"
	"gresnet/test/await"
	"gresnet/test/fusetest"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
)

// finds tells whether a search sees a namespace, and how it ends.
func finds(t *testing.T, ns *netnstest.NS) (bool, error) {
	t.Helper()
	all, err := netns.All()
	found := false
	for _, other := range all {
		found = found || other.String() == ns.String()
		other.Close()
	}
	return found, err
}

// What stands now where a namespace was bound is the mount namespace's user's choice. To
// open a device can start it: /dev/watchdog reboots the node.
func TestASearchOpensNothingButNamespaces(t *testing.T) {
	for name, put := range map[string]string{
		"a symbolic link":      `mkdir "$dir/sub"; ln -s "$canary" "$dir/sub/ns"`,
		"a link in its folder": `ln -s "$(dirname "$canary")" "$dir/sub"`,
		"another file":         `mkdir "$dir/sub"; touch "$dir/sub/ns"; mount --bind "$canary" "$dir/sub/ns"`,
		"a named pipe":         `mkdir "$dir/sub"; mkfifo "$dir/sub/ns"`,
	} {
		t.Run(name, func(t *testing.T) {
			ns := netnstest.New(t)
			dir, canary := t.TempDir(), filepath.Join(t.TempDir(), "ns")
			if err := os.WriteFile(canary, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(watch)
			script := fmt.Sprintf(`dir=%s/d canary=%s; mkdir -p "$dir/sub"; touch "$dir/sub/ns"; mount --bind %s "$dir/sub/ns"
mount -t tmpfs none "$dir"; %s; exec cat /proc/self/comm -`, dir, canary, ns.Path, put)
			standin.Start(t, exec.Command("unshare", "-m", "sh", "-ec", script))
			if _, err := unix.InotifyAddWatch(watch, canary, unix.IN_OPEN); err != nil {
				t.Fatal(err)
			}
			if found, err := finds(t, ns); !found || err != nil {
				t.Errorf("found %v, %v", found, err)
			}
			if n, err := unix.Read(watch, make([]byte, 4096)); err != unix.EAGAIN {
				t.Errorf("the search opened the file: %d, %v", n, err)
			}
		})
	}
}

// apart starts a command in a network namespace that is bound to no file, and returns the namespace by
// device and inode.
func apart(t *testing.T, command ...string) (pid int, id string, end func()) {
	t.Helper()
	cmd := exec.Command("unshare", append([]string{"--net"}, command...)...)
	end = standin.Start(t, cmd)
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid), &st); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, fmt.Sprintf("%d:%d", st.Dev, st.Ino), end
}

// Users have as many descriptors as they like. So what processes are in is looked at before what any of them
// has open, though root's are looked at before those of users.
func TestWhatProcessesAreInIsSeenBeforeWhatTheyHaveOpen(t *testing.T) {
	netnstest.New(t) // needs root
	first, open, end := apart(t, "cat", "/proc/self/comm", "-")
	standin.Start(t, exec.Command("sh", "-c", `exec 3<"$0"; exec cat /proc/self/comm -`, fmt.Sprintf("/proc/%d/ns/net", first)))
	end()
	_, in, _ := apart(t, "setpriv", "--reuid", "65534", "cat", "/proc/self/comm", "-")
	all, err := netns.All()
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, ns := range all {
		seen = append(seen, ns.String())
		ns.Close()
	}
	if i, j := slices.Index(seen, in), slices.Index(seen, open); i < 0 || j < i {
		t.Errorf("what a user's process is in is seen as number %d, what root's has open as number %d of %d", i, j, len(seen))
	}
}

// endLate ends a file system if what waits for it goes on no further, and tells whether it had to.
func endLate(t *testing.T, f *fusetest.FS) (had func() bool) {
	timer := time.AfterFunc(await.Most(t), f.End)
	return func() bool { return !timer.Stop() }
}

// epoll_ctl(2) asks a file whether it is ready, and holds meanwhile what fdinfo waits for.
func TestAnEpollThatAsksAFileServerIsNotWaitedFor(t *testing.T) {
	ns := netnstest.New(t)
	f := fusetest.Mount(t, "none", fusetest.Poll)
	file, err := unix.Open(filepath.Join(f.Dir, fusetest.File), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	added := make(chan bool)
	go func() {
		// Not unix.EpollCtl: that keeps the garbage collector, and so all of the test, waiting.
		event := unix.EpollEvent{Events: unix.EPOLLIN}
		unix.Syscall6(unix.SYS_EPOLL_CTL, uintptr(poll), unix.EPOLL_CTL_ADD, uintptr(file), uintptr(unsafe.Pointer(&event)), 0, 0)
		close(added)
	}()
	f.Await(t, fusetest.Poll)
	had := endLate(t, f)
	if found, err := finds(t, ns); !found || err != nil {
		t.Errorf("found %v, %v", found, err)
	}
	if had() {
		t.Error("the file server was waited for")
	}
	f.End()
	await.Value(t, "epoll_ctl has returned", added)
}

// A namespace is bound below a file system whose server stops to answer: a search sees
// all others, says who held it up, and does not wait.
func TestASearchIsGivenUpThatAFileServerHoldsUp(t *testing.T) {
	ns := netnstest.New(t)
	f := fusetest.Mount(t, "none")
	point := filepath.Join(f.Dir, fusetest.File)
	standin.Start(t, exec.Command("unshare", "-m", "sh", "-ec", fmt.Sprintf("mount --bind %s %s; exec cat /proc/self/comm -", ns.Path, point)))
	begun := time.Now()
	if found, err := finds(t, ns); !found || err != nil {
		t.Fatalf("before: found %v, %v", found, err)
	}
	netns.SetLookTimeout(t, 2*time.Second+10*time.Since(begun)) // a look is a part of a search
	f.Silence(fusetest.Lookup, fusetest.Getattr)
	had := endLate(t, f)
	found, err := finds(t, ns)
	if !found {
		t.Error("what it could have seen it did not see")
	}
	if !errors.Is(err, netns.ErrHeldUp) || !strings.Contains(err.Error(), point) {
		t.Errorf("it says %v", err)
	}
	if had() {
		t.Error("the file server was waited for")
	}
}
