package config

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/BurntSushi/toml"

	"gresnet/test/seed"
)

func TestCommentsChangeNothingOfWhatAFileSays(t *testing.T) {
	lines := []string{"a = 1", "  b = \"# no comment\"", "c = [", "  1, # one", "]", "[t]", "d = 2 # two", "", "e = '''", "# kept", "'''", "f = \"\"\"", "  # kept", "\"\"\"", "g = = 1", "h = \"open"}
	comments := []string{"# a comment", "\t # indented", "#", "# \"\"\" '''", "# caf\u00e9", "# bell \a", "#\r", "# of Windows\r"}
	for range 3000 {
		var text []byte
		for range 1 + seed.IntN(12) {
			line := lines[seed.IntN(len(lines))]
			if seed.IntN(2) == 0 {
				line = comments[seed.IntN(len(comments))]
			}
			text = append(append(text, line...), '\n')
		}
		if seed.IntN(4) == 0 {
			text = text[:len(text)-1]
		}
		want, got := map[string]any{}, map[string]any{}
		wantErr, gotErr := toml.Unmarshal(text, &want), toml.Unmarshal(withoutComments(text), &got)
		if (wantErr == nil) != (gotErr == nil) || wantErr == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q says %v, %v\nand without its comments %v, %v", text, want, wantErr, got, gotErr)
		}
		var was, is toml.ParseError
		if errors.As(wantErr, &was) && errors.As(gotErr, &is) {
			line := func(text []byte, at toml.Position) int { return bytes.Count(text[:at.Start], []byte("\n")) }
			if line(text, was.Position) != line(withoutComments(text), is.Position) || was.Message != is.Message {
				t.Fatalf("%q: %v\nand without its comments: %v", text, wantErr, gotErr)
			}
		}
	}
}
