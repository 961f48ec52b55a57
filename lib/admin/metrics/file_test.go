package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gresnet/lib/admin/metrics"
	"gresnet/lib/state"
)

func fileIn(dir string) metrics.File {
	return metrics.File{Path: filepath.Join(dir, "gresnet.prom"), Lock: filepath.Join(dir, "metrics.lock"), Pending: filepath.Join(dir, "pending")}
}

func cleanUpOnce(p *metrics.Page) error { return p.Add(metrics.CleanedUp, 1) }

// cleaned wants the file to have counted so many.
func cleaned(t *testing.T, f metrics.File, want int) {
	t.Helper()
	text, err := os.ReadFile(f.Path)
	if line := fmt.Sprintf("\n%s %d\n", metrics.CleanedUp, want); err != nil || !strings.Contains(string(text), line) {
		t.Errorf("%v: the file lacks %q:\n%s", err, line, text)
	}
	info, err := os.Lstat(f.Path)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("%v: the file's mode is %s", err, info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(f.Path), ".*.new")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestNoRunIsLostHoweverManyThereAreAtOnce(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // as slurmd's may be
	f := fileIn(t.TempDir())
	const writers, times = 8, 20
	var all sync.WaitGroup
	for range writers {
		all.Add(1)
		go func() {
			defer all.Done()
			for range times {
				if restarted, err := f.Update(context.Background(), cleanUpOnce); restarted != nil || err != nil {
					t.Error(restarted, err)
				}
			}
		}()
	}
	all.Wait()
	cleaned(t, f, writers*times)
}

func TestAFileThatCannotBeReadStartsAgain(t *testing.T) {
	good := string(metrics.New().Text())
	for name, lay := range map[string]func(path string) error{
		"damaged": func(path string) error { return os.WriteFile(path, []byte(good[1:]), 0o644) },
		"empty":   func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"huge":    func(path string) error { return os.WriteFile(path, make([]byte, 2<<20), 0o644) },
		"a pipe":  func(path string) error { return syscall.Mkfifo(path, 0o644) },
		"a link to another file": func(path string) error {
			if err := os.WriteFile(path+".other", []byte(good), 0o600); err != nil {
				return err
			}
			return os.Symlink(path+".other", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := fileIn(t.TempDir())
			if err := lay(f.Path); err != nil {
				t.Fatal(err)
			}
			restarted, err := f.Update(context.Background(), cleanUpOnce)
			if restarted == nil || err != nil {
				t.Errorf("restarted for %v, %v", restarted, err)
			}
			cleaned(t, f, 1)
			if other, err := os.ReadFile(f.Path + ".other"); err == nil && string(other) != good {
				t.Errorf("the other file was written to:\n%s", other)
			}
			if restarted, err = f.Update(context.Background(), cleanUpOnce); restarted != nil || err != nil {
				t.Errorf("the second time: %v, %v", restarted, err)
			}
			cleaned(t, f, 2)
		})
	}
}

func TestWhatAKilledWriterLeftIsInNobodysWay(t *testing.T) {
	for name, lay := range map[string]func(path string) error{
		"half a file":     func(path string) error { return os.WriteFile(path, []byte("# HELP"), 0o600) },
		"somebody's link": func(path string) error { return os.Symlink("/dev/null", path) },
	} {
		f := fileIn(t.TempDir())
		if err := lay(filepath.Join(filepath.Dir(f.Path), ".gresnet.prom.new")); err != nil {
			t.Fatal(err)
		}
		if restarted, err := f.Update(context.Background(), cleanUpOnce); restarted != nil || err != nil {
			t.Errorf("%s: %v, %v", name, restarted, err)
		}
		cleaned(t, f, 1)
	}
}

func TestALockThatIsHeldIsWaitedForAsLongAsTheContextSays(t *testing.T) {
	f := fileIn(t.TempDir())
	held, err := state.LockFile(context.Background(), f.Lock)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := f.Update(ctx, cleanUpOnce); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(f.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file was written without the lock: %v", err)
	}
}

func TestAnErrorLeavesTheFileAsItWas(t *testing.T) {
	f := fileIn(t.TempDir())
	if _, err := f.Update(context.Background(), cleanUpOnce); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("it cannot be counted")
	_, err := f.Update(context.Background(), func(p *metrics.Page) error { return errors.Join(cleanUpOnce(p), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	cleaned(t, f, 1)
	f.Path = filepath.Join(filepath.Dir(f.Path), "nowhere", "gresnet.prom")
	if _, err := f.Update(context.Background(), cleanUpOnce); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}
