package detach

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAMoveEndsAsItsProcessDoes(t *testing.T) {
	if err := result(0, nil); err != nil {
		t.Errorf("a move that was carried out: %v", err)
	}
	if err := result(16, nil); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a move that the kernel refused: %v", err)
	}
	if err := result(0, ErrHeldUp); !errors.Is(err, errHangs) {
		t.Errorf("a move that does not end: %v", err)
	}
	killed := errors.New("it was killed")
	if err := result(0, killed); !errors.Is(err, killed) || errors.Is(err, errHangs) {
		t.Errorf("a move whose process was killed: %v", err)
	}
}
