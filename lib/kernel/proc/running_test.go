package proc_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"gresnet/lib/kernel/proc"
)

func TestAProcessRunsSinceItsStart(t *testing.T) {
	before := proc.SinceBoot()
	mine, err := proc.Running(os.Getpid())
	if err != nil || mine < 0 || mine > proc.SinceBoot() {
		t.Fatalf("got %s, %v", mine, err)
	}
	parent, err := proc.Running(os.Getppid())
	if err != nil || parent+time.Second < mine || parent > before+time.Second {
		t.Errorf("the parent runs for %s, this one for %s, the node for %s: %v", parent, mine, before, err)
	}
	if _, err := proc.Running(1 << 22); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
}
