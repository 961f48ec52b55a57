package mover

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// started is a move with a program in the child's place.
func started(t *testing.T, script string) *Move {
	t.Helper()
	result, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	cmd := exec.Command("sh", "-c", script)
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return &Move{cmd.Process.Pid, result}
}

// awaitEnd waits until a move has ended, and nobody has asked how.
func awaitEnd(t *testing.T, m *Move) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", m.pid))
		if err != nil || time.Now().After(end) {
			t.Fatalf("process %d: %q, %v", m.pid, stat, err)
		}
		if strings.Contains(string(stat), ") Z ") {
			return
		}
	}
}

func TestAMoveThatHasEndedIsKnownToHoweverLateOneAsks(t *testing.T) {
	late := time.Now().Add(-time.Hour)
	m := started(t, "exit 0")
	awaitEnd(t, m)
	if err := m.Wait(late); err != nil {
		t.Errorf("a move that was carried out: %v", err)
	}
	m = started(t, "exit 16")
	awaitEnd(t, m)
	if err := m.Wait(late); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a move that the kernel refused: %v", err)
	}
}

func TestAMoveIsWaitedForUntilItsDeadline(t *testing.T) {
	if err := started(t, "sleep 0.1").Wait(time.Now().Add(time.Minute)); err != nil {
		t.Errorf("a move in time: %v", err)
	}
	if err := started(t, "exec sleep 1000").Wait(time.Now().Add(10 * time.Millisecond)); !errors.Is(err, ErrHangs) {
		t.Errorf("a move that does not end: %v", err)
	}
	if err := started(t, "kill -9 $$").Wait(time.Now().Add(time.Minute)); err == nil || !strings.HasSuffix(err.Error(), "was ended by killed") {
		t.Errorf("a move whose process was killed: %v", err)
	}
}
