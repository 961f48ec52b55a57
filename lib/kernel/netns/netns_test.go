package netns_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/netns"
	"gresnet/lib/state"
	"gresnet/test/await"
	"gresnet/test/netnstest"
)

func TestANamespaceIsEnteredByOneThreadAlone(t *testing.T) {
	ns := netnstest.New(t)
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		var inside string
		err := ns.Do(func() error {
			inside, err = os.Readlink("/proc/thread-self/ns/net")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if inside == own {
			t.Fatal("Do did not enter")
		}
	}
	await.Until(t, "no thread is elsewhere than in "+own, func() bool { return len(threadsElsewhere(t, own)) == 0 })
}

// threadsElsewhere returns the threads that are in another namespace; the kernel
// ends one some time after its goroutine.
func threadsElsewhere(t *testing.T, own string) (foreign []string) {
	tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if at, err := os.Readlink(task); err == nil && at != own {
			foreign = append(foreign, task+" "+at)
		}
	}
	return foreign
}

func TestAFileThatIsNoNamespaceIsToldApart(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := plain + ".pipe"
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{plain, pipe, "/proc/self/ns/mnt", "/proc/self/ns/user", "/dev/null"} {
		if ns, err := netns.Open(path); !errors.Is(err, netns.ErrNotNetns) {
			t.Errorf("open %s: %v, %v", path, ns, err)
		}
	}
	if _, err := netns.Open(plain + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("open a missing file: %v", err)
	}
}

func TestCreateAndRemoveLeaveNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to make network namespaces")
	}
	path := filepath.Join(t.TempDir(), "netns")
	ns, err := netns.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if _, err := netns.Create(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("create on an existing path: %v", err)
	}
	for range 2 {
		if err := state.Unmount(path); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after remove: %v", err)
	}
}
