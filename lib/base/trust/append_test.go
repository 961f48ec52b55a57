package trust_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gresnet/lib/base/trust"
	"gresnet/test/netnstest"
)

func TestLinesOfManyWritersDoNotMix(t *testing.T) {
	path := filepath.Join(netnstest.RootsFolder(t), "jobs")
	const writers, times = 8, 50
	var all sync.WaitGroup
	for w := range writers {
		all.Add(1)
		go func() {
			defer all.Done()
			for range times {
				if err := trust.Append(path, strings.Repeat(fmt.Sprint(w), 5000)+"\n"); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	text, err := os.ReadFile(path)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if err != nil || len(lines) != writers*times {
		t.Fatalf("%v: there are %d lines", err, len(lines))
	}
	for _, line := range lines {
		if strings.Repeat(line[:1], 5000) != line {
			t.Fatalf("a line is %q", line)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v: the file has mode %s", err, info.Mode())
	}
}

func TestNothingIsAppendedWhereOthersThanRootCouldDecideWhereItGoes(t *testing.T) {
	for want, lay := range map[string]func(dir string) error{
		"it is a symbolic link": func(dir string) error { return os.Symlink(dir+"/other", dir+"/it") },
		"it is no regular file": func(dir string) error {
			return join(syscall.Mkfifo(dir+"/it", 0o600), heldOpen(dir+"/it"))
		},
		"no such device or address": func(dir string) error { return syscall.Mkfifo(dir+"/it", 0o600) },
		"it is not root's": func(dir string) error {
			return join(os.WriteFile(dir+"/it", nil, 0o600), os.Chown(dir+"/it", 1000, -1))
		},
		"others than root may write it (-rw-rw----)":      func(dir string) error { return join(os.WriteFile(dir+"/it", nil, 0o600), os.Chmod(dir+"/it", 0o660)) },
		"DIR: it is not root's":                           func(dir string) error { return os.Chown(dir, 1000, -1) },
		"DIR: others than root may write it (drwxrwx---)": func(dir string) error { return os.Chmod(dir, 0o770) },
		"lstat DIR: no such file or directory":            os.Remove,
		"is a directory":                                  func(dir string) error { return os.Mkdir(dir+"/it", 0o700) },
	} {
		dir := netnstest.RootsFolder(t)
		if err := lay(dir); err != nil {
			t.Fatal(err)
		}
		err := trust.Append(dir+"/it", "a line\n")
		if err == nil || !strings.HasSuffix(err.Error(), strings.ReplaceAll(want, "DIR", dir)) {
			t.Errorf("%s: got %v", want, err)
		}
		if _, err := os.Stat(dir + "/other"); err == nil {
			t.Errorf("%s: it went somewhere else", want)
		}
		if info, err := os.Stat(dir + "/it"); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			t.Errorf("%s: it was written", want)
		}
	}
}

// heldOpen has somebody read a FIFO, so that its opening for writing succeeds.
func heldOpen(path string) error {
	_, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	return err
}
