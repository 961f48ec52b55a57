package detach

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// task is work for tests: it waits, says what it was told to, and ends.
type task struct {
	keep  []uintptr
	says  []byte
	waits unix.Timespec
}

func (w *task) Keep() []uintptr { return w.keep }

//go:nosplit
//go:norace
//go:nocheckptr
func (w *task) Do(output uintptr) uintptr {
	syscall.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&w.waits)), 0, 0)
	if len(w.says) > 0 {
		syscall.RawSyscall(unix.SYS_WRITE, output, uintptr(unsafe.Pointer(&w.says[0])), uintptr(len(w.says)))
	}
	return 0
}

// forever is longer than a test waits.
var forever = unix.Timespec{Sec: 1000}

func start(t *testing.T, w *task) *Fork {
	t.Helper()
	p, err := StartFork("gresnet-task", w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Leave)
	return p
}

// awaitState waits until a process has a state that /proc/PID/stat tells.
func awaitState(t *testing.T, p *Fork, state string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
		if err == nil && strings.Contains(string(stat), "(gresnet-task) "+state+" ") {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("process %d: %q, %v", p.pid, stat, err)
		}
	}
}

func TestTheProcessHasNothingOfOursButWhatItKeeps(t *testing.T) {
	kept, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	other, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p := start(t, &task{keep: []uintptr{kept.Fd()}, waits: forever})
	awaitState(t, p, "S") // it sleeps, so it has closed what it closes
	fds := map[string]string{}
	dir := fmt.Sprintf("/proc/%d/fd", p.pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		fds[e.Name()], _ = os.Readlink(dir + "/" + e.Name())
	}
	for _, name := range []string{"0", "1", "2"} {
		if fds[name] != os.DevNull {
			t.Errorf("descriptor %s is %s", name, fds[name])
		}
	}
	if name := fmt.Sprint(kept.Fd()); len(fds) != 5 || fds[name] != "/" {
		t.Errorf("it has %v", fds)
	}
	if sid, err := unix.Getsid(p.pid); err != nil || sid != p.pid {
		t.Errorf("its session is %d, %v, and its id %d", sid, err, p.pid)
	}
}

func TestWhatTheWorkSaysIsReadUntilItEnds(t *testing.T) {
	p := start(t, &task{says: []byte("well")})
	text, err := io.ReadAll(p.Output)
	if string(text) != "well" || err != nil {
		t.Errorf("it said %q, %v", text, err)
	}
}
