package hint_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"gresnet/lib/base/hint"
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

func TestAHintIsCutIntoTheMessagesIDAndWhatToDo(t *testing.T) {
	for whole, want := range map[string][2]string{
		"GN012 see ip route": {"GN012", "see ip route"},
		"GN012":              {"", "GN012"},
		"GN12 see":           {"", "GN12 see"},
		"GNxyz see":          {"", "GNxyz see"},
		"see GN012":          {"", "see GN012"},
		"":                   {"", ""},
	} {
		err := fmt.Errorf("outer: %w", hint.With(io.EOF, whole))
		if id, text := hint.Cut(whole); id != want[0] || text != want[1] || hint.ID(err) != id || hint.Of(err) != text || hint.Whole(err) != whole {
			t.Errorf("%q is cut into %q and %q", whole, id, text)
		}
	}
	if hint.ID(io.EOF) != "" || hint.Tag("") != "" || hint.Tag("GN012") != " [GN012]" {
		t.Error("an error without a hint has an id, or a tag is wrong")
	}
}
