package cli

import (
	"errors"
	"testing"

	"gresnet/lib/words/hint"
)

func TestAReasonBeginsWithTheIDSinceSinfoCutsOffTheEnd(t *testing.T) {
	cause := errors.New("move mlx5_3: device busy")
	if got := reason(cause); got != "gresnet: move mlx5_3: device busy" {
		t.Errorf("without an id: %q", got)
	}
	if got := reason(hint.With(cause, "GN777 wait")); got != "gresnet: GN777: move mlx5_3: device busy" {
		t.Errorf("with an id: %q", got)
	}
}
