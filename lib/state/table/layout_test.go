package table_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gresnet/lib/state/table"
)

func TestStateOfAnotherVersionIsLeftAloneAndAVersionThatDoesNotReadUnlessThereAreFolders(t *testing.T) {
	for text, want := range map[string]error{"2\n": table.ErrVersion, "7": table.ErrVersion, "{}": nil, "": nil, "torn": nil} {
		f := table.Folder(t.TempDir())
		file := filepath.Join(string(f), "version")
		must(t, os.WriteFile(file, []byte(text), 0o644))
		err := f.Update(t.Context(), func(*table.Table) error { t.Error("it changes"); return nil })
		if _, read := f.Read(); err == nil || read == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%q: %v, %v", text, err, read)
		}
		must(t, os.Remove(file))
		fill(t, f, full)
		must(t, os.WriteFile(file, []byte(text), 0o644))
		now, err := f.Read()
		if want == nil && (err != nil || len(now.Claims) != 1) || want != nil && !errors.Is(err, want) {
			t.Errorf("%q beside folders: %+v, %v", text, now.Claims, err)
		}
	}
}
