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

	"golang.org/x/sys/unix"

	"gresnet/lib/kernel/mount"
	"gresnet/lib/kernel/netns"
	"gresnet/test/await"
	"gresnet/test/fusetest"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
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
		if err := mount.Remove(path); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after remove: %v", err)
	}
}

func TestANamespaceIsFoundByWhateverKeepsItOpen(t *testing.T) {
	for _, tt := range []struct {
		name string
		who  string // as Others has it
		keep func(t *testing.T, path string)
	}{
		{"a mount", "/netns", func(*testing.T, string) {}},
		{"a mount whose path has blanks", `/a b\tc`, func(t *testing.T, path string) {
			other := filepath.Join(filepath.Dir(path), "a b\tc")
			if err := os.WriteFile(other, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("mount", "--bind", path, other).CombinedOutput(); err != nil {
				t.Fatalf("mount: %v: %s", err, out)
			}
			t.Cleanup(func() { mount.Remove(other) })
			mount.Remove(path)
		}},
		{"a descriptor", fmt.Sprintf("netns.test (pid %d)", os.Getpid()), func(t *testing.T, path string) {
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			mount.Remove(path)
		}},
		{"a process", "cat (pid ", func(t *testing.T, path string) {
			standin.Start(t, exec.Command("nsenter", "--net="+path, "cat", "/proc/self/comm", "-"))
			mount.Remove(path)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				netnstest.Skip(t, "needs root to make network namespaces")
			}
			path := filepath.Join(t.TempDir(), "netns")
			ns, err := netns.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			name := ns.String()
			t.Cleanup(func() { mount.Remove(path) })
			tt.keep(t, path)
			ns.Close()
			all, err := netns.All()
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, other := range all {
				if other.String() == name {
					found++
				}
				other.Close()
			}
			if found != 1 {
				t.Errorf("found %d times among %d namespaces", found, len(all))
			}
			others, err := netns.Others()
			if err != nil {
				t.Fatal(err)
			}
			if who := others[name]; !slices.ContainsFunc(who, func(w string) bool { return strings.Contains(w, tt.who) }) {
				t.Errorf("%q have it, wanted %q", who, tt.who)
			}
		})
	}
}

// Whoever has a file open of a server that does not answer must not hold up a search.
func TestAFileServerThatDoesNotAnswerIsNotWaitedFor(t *testing.T) {
	f := fusetest.Mount(t, "none", fusetest.Any)
	file, err := unix.Open(f.Dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(file)
	had := endLate(t, f)
	all, err := netns.All()
	if had() {
		t.Error("the server was asked")
	}
	if err != nil {
		t.Error(err)
	}
	for _, ns := range all {
		ns.Close()
	}
}
