package journal_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gresnet/lib/state/journal"
)

// FuzzOpen holds the journal to what a rollback relies on: what reads once
// reads again, opening takes nothing away but a broken tail, what was read
// seals to the bytes that stand there, and a part of a journal has no entry
// that the whole has not.
func FuzzOpen(f *testing.F) {
	header := journal.Seal([]byte(`{"version":1,"job":1,"run":"0"}`))
	entry := journal.Seal([]byte(`{"entry":1,"kind":"rdma","data":{}}`))
	f.Add([]byte(""), 0)
	f.Add(header, 3)
	f.Add(bytes.Join([][]byte{header, entry, journal.Seal([]byte(`{"undone":1}`))}, nil), 100)
	f.Add(bytes.Join([][]byte{entry, []byte("rubbish\n"), entry}, nil), 60)
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		path := filepath.Join(t.TempDir(), "journal")
		j := fuzzed(t, path, text)
		if j == nil {
			return
		}
		left, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(text, left) || bytes.Contains(text[len(left):max(len(text)-1, len(left))], []byte{'\n'}) {
			t.Fatalf("%q was left as %q, %v", text, left, err)
		}
		for i, n := range j.Entries {
			if i > 0 && n.Number <= j.Entries[i-1].Number || n.Number < 1 {
				t.Fatalf("entries %+v", j.Entries)
			}
			if len(n.Data) > 0 && (!json.Valid(n.Data) || !bytes.Contains(text, n.Data)) {
				t.Fatalf("entry %d has %q, which %q has not", n.Number, n.Data, text)
			}
		}
		if again := fuzzed(t, path, left); again == nil || !reflect.DeepEqual(again.Entries, j.Entries) || !reflect.DeepEqual(again.Gaps, j.Gaps) {
			t.Fatalf("%q reads as %+v, and as %+v when it is read again", text, j, again)
		}
		// The first of two that differ is taken, and a part may have only the second.
		if part := fuzzed(t, path, text[:min(max(cut, 0), len(text))]); part != nil && len(j.Gaps) == 0 {
			for _, n := range part.Entries {
				if !has(j.Entries, n) {
					t.Fatalf("a part of %q has entry %+v, the whole has %+v", text, n, j.Entries)
				}
			}
		}
	})
}

// fuzzed opens a journal with a text; one that must be left alone is nil.
func fuzzed(t *testing.T, path string, text []byte) *journal.Journal {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(path)
	if err != nil {
		if left, _ := os.ReadFile(path); !bytes.Equal(left, text) {
			t.Fatalf("a journal that was not read was changed: %v", err)
		}
		return nil
	}
	j.Close()
	return j
}

func has(entries []journal.Entry, n journal.Entry) bool {
	for _, o := range entries {
		if o.Number == n.Number && o.Kind == n.Kind && bytes.Equal(o.Data, n.Data) {
			return true
		}
	}
	return false
}

// FuzzEntry holds what is written to what is read: a journal made of any words
// prints back to the same bytes.
func FuzzEntry(f *testing.F) {
	f.Add("rdma", "mlx5_3", uint32(4711), "2/sX")
	f.Add("", "\n\x00é\xff", uint32(0), "{\"version\":2}")
	f.Fuzz(func(t *testing.T, kind, name string, job uint32, run string) {
		// JSON has no other text.
		kind, run = strings.ToValidUTF8(kind, "?"), strings.ToValidUTF8(run, "?")
		var texts [2][]byte
		h, entries := journal.Header{Job: job, Run: run}, []journal.Entry{{Kind: kind}, {Kind: kind}}
		var data any = fact{name}
		for i := range texts {
			path := filepath.Join(t.TempDir(), "journal")
			j, err := journal.Create(path, h)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range entries {
				if err := j.Add(n.Kind, data); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.MarkUndone(1); err != nil {
				t.Fatal(err)
			}
			j.Close()
			texts[i], _ = os.ReadFile(path)
			read := fuzzed(t, path, texts[i])
			if read == nil || len(read.Entries) != 2 || len(read.Gaps) != 0 || !read.Entries[0].Undone || read.Entries[1].Undone {
				t.Fatalf("%q reads as %+v", texts[i], read)
			}
			h, entries, data = read.Header, read.Entries, read.Entries[0].Data
		}
		if !bytes.Equal(texts[0], texts[1]) {
			t.Fatalf("%q is written again as %q", texts[0], texts[1])
		}
	})
}
