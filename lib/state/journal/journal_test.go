package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gresnet/lib/state/journal"
)

type fact struct{ Name string }

// write makes a journal of two entries, the second marked undone, and returns its path and text.
func write(t *testing.T) (path string, text []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal")
	j, err := journal.Create(path, journal.Header{Job: 4711, Run: "2/sX"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, f := range []fact{{"mlx5_3"}, {"ib0"}} {
		if err := j.Add("rdma", f); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.MarkUndone(2); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, text
}

func TestAJournalReadsBackItsEntriesAndWhichAreUndone(t *testing.T) {
	path, _ := write(t)
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if j.Header.Job != 4711 || j.Header.Run != "2/sX" {
		t.Errorf("header %+v", j.Header)
	}
	if len(j.Entries) != 2 || j.Entries[0].Undone || !j.Entries[1].Undone || string(j.Entries[0].Data) != `{"Name":"mlx5_3"}` {
		t.Errorf("entries %+v", j.Entries)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestATailThatWasCutAnywhereLosesOnlyItself(t *testing.T) {
	path, text := write(t)
	for n := range text {
		j := reopen(t, path, text[:n])
		// What lacks but its newline reads.
		whole := bytes.LastIndexByte(text[:n], '\n') + 1
		lines := bytes.Count(text[:n], []byte{'\n'})
		if text[n] == '\n' {
			whole, lines = n, lines+1
		}
		if want := min(max(lines-1, 0), 2); len(j.Entries) != want || len(j.Gaps) != 0 {
			t.Fatalf("cut after %d bytes: %d entries, wanted %d; gaps %v", n, len(j.Entries), want, j.Gaps)
		}
		if left, _ := os.ReadFile(path); len(left) != whole {
			t.Fatalf("cut after %d bytes: %d bytes are left, wanted %d", n, len(left), whole)
		}
		// The next entry stands on a line of its own.
		entries := len(j.Entries)
		if err := j.Add("link", fact{"ib1"}); err != nil {
			t.Fatal(err)
		}
		if j = again(t, path); len(j.Entries) != entries+1 || len(j.Gaps) != 0 {
			t.Fatalf("cut after %d bytes, then added: %d entries, wanted %d; gaps %v", n, len(j.Entries), entries+1, j.Gaps)
		}
	}
}

func TestAFlippedBitCostsItsOwnLineAlone(t *testing.T) {
	path, text := write(t)
	starts := []int{0}
	for n, c := range text {
		if c == '\n' {
			starts = append(starts, n+1)
		}
	}
	for n := range text {
		hit := 0
		for starts[hit+1] <= n {
			hit++
		}
		atEnd := n == starts[hit+1]-1
		for bit := range 8 {
			broken := bytes.Clone(text)
			broken[n] ^= 1 << bit
			j := reopen(t, path, broken)
			// A newline that is none any more costs both lines; the last one nothing.
			lost := func(l int) bool {
				return l == hit && !(atEnd && l == 3) || atEnd && l == hit+1
			}
			want := 0
			for l := 1; l <= 2; l++ {
				if !lost(l) {
					want++
				}
			}
			if len(j.Entries) != want {
				t.Fatalf("bit %d of byte %d: %d entries, wanted %d", bit, n, len(j.Entries), want)
			}
			if (j.Header.Job == 4711) == lost(0) {
				t.Fatalf("bit %d of byte %d: header %+v", bit, n, j.Header)
			}
			// Entry 2 is marked undone: without it nothing is missing. The mark might have been an entry.
			if missing := lost(1) || lost(3); (len(j.Gaps) > 0) != missing {
				t.Fatalf("bit %d of byte %d: gaps %v", bit, n, j.Gaps)
			}
			for _, entry := range j.Entries {
				if entry.Undone != (entry.Number == 2 && !lost(3)) {
					t.Fatalf("bit %d of byte %d: entry %+v", bit, n, entry)
				}
			}
		}
	}
}

func TestWhereEntriesAreMissingIsKnown(t *testing.T) {
	header := `{"version":1,"job":4711,"run":"0"}`
	entry := func(n int) string { return fmt.Sprintf(`{"entry":%d,"kind":"rdma","data":{}}`, n) }
	undone := func(n int) string { return fmt.Sprintf(`{"undone":%d}`, n) }
	tests := []struct {
		name    string
		lines   []string // sealed; "!" is rubbish
		entries []int
		after   []int
	}{
		{"nothing", nil, nil, nil},
		{"a header", []string{header}, nil, nil},
		{"no header", []string{entry(1)}, []int{1}, nil},
		{"a line in the middle", []string{header, entry(1), entry(3)}, []int{1, 3}, []int{1}},
		{"the first ones", []string{header, entry(3)}, []int{3}, []int{0}},
		{"two places", []string{header, entry(2), entry(4)}, []int{2, 4}, []int{0, 2}},
		{"what is undone is not missed", []string{header, entry(1), entry(3), undone(2)}, []int{1, 3}, nil},
		{"rubbish at the end", []string{header, entry(1), "!"}, []int{1}, []int{1}},
		{"rubbish between entries without a gap", []string{header, entry(1), "!", entry(2)}, []int{1, 2}, nil},
		{"rubbish after a mark", []string{header, entry(1), entry(2), undone(1), "!"}, []int{1, 2}, nil},
		{"an entry twice", []string{header, entry(1), entry(2), entry(1)}, []int{1, 2}, nil},
		{"a header twice", []string{header, entry(1), header}, []int{1}, nil},
		{"entries in another order", []string{header, entry(2), entry(1)}, []int{1, 2}, nil},
		{"an entry twice, not the same", []string{header, entry(1), `{"entry":1,"kind":"link","data":{}}`}, []int{1}, []int{1}},
		{"neither entry nor mark", []string{header, entry(1), `{}`}, []int{1}, []int{1}},
		{"no object", []string{header, `[]`}, nil, []int{0}},
		{"a number beyond all", []string{header, entry(1 << 40)}, []int{1 << 40}, []int{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var text []byte
			for _, l := range tt.lines {
				if l == "!" {
					text = append(text, "rubbish\n"...)
				} else {
					text = append(text, journal.Seal([]byte(l))...)
				}
			}
			path := filepath.Join(t.TempDir(), "journal")
			j := reopen(t, path, text)
			var entries, after []int
			for _, n := range j.Entries {
				entries = append(entries, n.Number)
			}
			for _, g := range j.Gaps {
				after = append(after, g.After)
			}
			if !slices.Equal(entries, tt.entries) || !slices.Equal(after, tt.after) {
				t.Errorf("entries %v, gaps %+v; wanted %v, gaps after %v", entries, j.Gaps, tt.entries, tt.after)
			}
			if left, _ := os.ReadFile(path); !bytes.Equal(left, text) {
				t.Errorf("the journal was changed to %q", left)
			}
		})
	}
}

func TestAShortenedJournalGoesOnAfterTheEntryThatIsLeft(t *testing.T) {
	path, text := write(t)
	j := reopen(t, path, text)
	if err := j.Shorten(1); err != nil {
		t.Fatal(err)
	}
	if len(j.Entries) != 1 {
		t.Errorf("entries %+v", j.Entries)
	}
	if j = again(t, path); len(j.Entries) != 1 || len(j.Gaps) != 0 || j.Header.Job != 4711 {
		t.Errorf("read again: entries %+v, gaps %v", j.Entries, j.Gaps)
	}
}

// reopen opens a journal with a text.
func reopen(t *testing.T, path string, text []byte) *journal.Journal {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return again(t, path)
}

func again(t *testing.T, path string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func TestAnotherVersionIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Create(path, journal.Header{Job: 1, Run: "0"})
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	text, _ := os.ReadFile(path)
	for _, version := range []string{"2", "99", "-1"} {
		object := bytes.Replace(text[9:len(text)-1], []byte(`"version":1`), []byte(`"version":`+version), 1)
		if err := os.WriteFile(path, journal.Seal(object), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := journal.Open(path); !errors.Is(err, journal.ErrVersion) {
			t.Errorf("version %s: %v", version, err)
		}
	}
}
