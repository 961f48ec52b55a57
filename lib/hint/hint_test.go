package hint_test

import (
	"errors"
	"io"
	"testing"

	"gresnet/lib/hint"
)

func TestJoinedErrorsAreOneLineAndEachIsFound(t *testing.T) {
	late := errors.New("late")
	err := hint.Join(nil, late, nil, hint.Join(nil, hint.With(io.EOF, "read less"), nil))
	if err == nil || err.Error() != "late; EOF" || !errors.Is(err, late) || !errors.Is(err, io.EOF) || hint.Of(err) != "read less" {
		t.Errorf("%v, with the hint %q", err, hint.Of(err))
	}
	if err := hint.Join(nil, nil); err != nil {
		t.Errorf("no errors are joined to %v", err)
	}
	if err := hint.Join(nil, late); err != late {
		t.Errorf("one error is joined to %v", err)
	}
}
