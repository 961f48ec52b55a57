package table_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/state/table"
)

// v1 returns node.json as c8fb900 wrote it, and what that program read there.
func v1(t *testing.T) (document []byte, want table.Table) {
	t.Helper()
	document, err := os.ReadFile("testdata/node.json")
	must(t, err)
	must(t, json.Unmarshal(document, &want))
	return document, want
}

func TestTheStateOfAnOlderProgramIsReadAndThenMovedIntoFolders(t *testing.T) {
	document, want := v1(t)
	f := table.Folder(t.TempDir())
	file := filepath.Join(string(f), "node.json")
	must(t, os.WriteFile(file, document, 0o644))
	for round := range 3 {
		now, err := f.Read()
		must(t, err)
		if text(t, now) != text(t, want) {
			t.Errorf("round %d:\ngot  %s\nwant %s", round, text(t, now), text(t, want))
		}
		if after, err := os.ReadFile(file); err != nil || (string(after) == string(document)) != (round == 0) {
			t.Errorf("round %d: node.json has %s, %v", round, after, err)
		}
		must(t, f.Update(t.Context(), func(*table.Table) error { return nil }))
	}
	must(t, f.Update(t.Context(), func(now *table.Table) error {
		now.Release(1, "2/s8KQ3V7Z1", table.Noted(nil, false), nil)
		now.FreeUplink(1, "2/s8KQ3V7Z1")
		return nil
	}))
	if now, err := f.Read(); err != nil || len(now.Claims) != 2 || len(now.Uplinks) != 1 {
		t.Errorf("claims %+v, uplinks %+v, %v", now.Claims, now.Uplinks, err)
	}
}

// A kill leaves some of the entries and the document, which an older program may then change.
func TestAMoveIntoFoldersThatWasKilledBeginsAgain(t *testing.T) {
	document, want := v1(t)
	whole := table.Folder(t.TempDir())
	must(t, os.WriteFile(filepath.Join(string(whole), "node.json"), document, 0o644))
	must(t, whole.Update(t.Context(), func(*table.Table) error { return nil }))
	entries := slices.DeleteFunc(slices.Sorted(maps.Keys(paths(t, whole))), func(path string) bool { return !strings.Contains(path, "/") })
	for n := range len(entries) + 1 {
		f := table.Folder(t.TempDir())
		must(t, os.CopyFS(string(f), os.DirFS(string(whole))))
		must(t, os.WriteFile(filepath.Join(string(f), "node.json"), document, 0o644))
		for _, path := range entries[n:] {
			must(t, os.Remove(filepath.Join(string(f), path)))
		}
		must(t, os.Symlink("../jobs/99/0", filepath.Join(string(f), "claims", "0002:c903:00ab:0009"))) // that has ended since
		must(t, f.Update(t.Context(), func(*table.Table) error { return nil }))
		if now, err := f.Read(); err != nil || text(t, now) != text(t, want) {
			t.Errorf("after %d entries: %v\ngot  %s\nwant %s", n, err, text(t, now), text(t, want))
		}
	}
}

func TestWhatIsNoLayoutIsRefusedUnlessThereAreFolders(t *testing.T) {
	for text, want := range map[string]error{
		"{\n  \"version\": 3,\n  \"sum\": \"00000000\"\n}\n": table.ErrVersion, `{"version": 7, "claims": 1}`: table.ErrVersion, "{}": nil, "": nil, "torn": nil,
	} {
		f := table.Folder(t.TempDir())
		file := filepath.Join(string(f), "node.json")
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

// Older programs look at the checksum first: they would make a document that does not have it anew.
func TestTheLayoutHasTheChecksumThatOlderProgramsLookFor(t *testing.T) {
	before, rest, is := strings.Cut(table.LaidOut, `"sum": "`)
	blank := before + `"sum": "00000000` + rest[8:]
	if want := fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(blank))); !is || rest[:8] != want {
		t.Errorf("%s has not the checksum %s", table.LaidOut, want)
	}
}
