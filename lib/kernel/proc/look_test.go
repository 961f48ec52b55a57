package proc_test

import (
	"errors"
	"testing"

	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/proc"
)

func TestALookThatIsNotOverInTimeIsGivenUp(t *testing.T) {
	proc.SetLookTimeout(t, 0)
	if _, err := proc.Inside("0:0", proc.NoUser); !errors.Is(err, detach.ErrHeldUp) {
		t.Errorf("it ends with %v", err)
	}
	if _, err := proc.Runs("slurmd"); !errors.Is(err, detach.ErrHeldUp) {
		t.Errorf("it ends with %v", err)
	}
}
