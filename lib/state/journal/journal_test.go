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

// write makes a journal of two notes, the second struck, and returns its path and text.
func write(t *testing.T) (path string, text []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "journal")
	j, err := journal.Create(path, journal.Header{Job: 4711, Run: "2/sX"})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for _, f := range []fact{{"mlx5_3"}, {"ib0"}} {
		if err := j.Note("rdma", f); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Strike(2); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, text
}

func TestAJournalReadsBackWhatWasNotedAndStruck(t *testing.T) {
	path, _ := write(t)
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if j.Header.Job != 4711 || j.Header.Run != "2/sX" {
		t.Errorf("header %+v", j.Header)
	}
	if len(j.Notes) != 2 || j.Notes[0].Struck || !j.Notes[1].Struck || string(j.Notes[0].Data) != `{"Name":"mlx5_3"}` {
		t.Errorf("notes %+v", j.Notes)
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
		if want := min(max(lines-1, 0), 2); len(j.Notes) != want || len(j.Gaps) != 0 {
			t.Fatalf("cut after %d bytes: %d notes, wanted %d; gaps %v", n, len(j.Notes), want, j.Gaps)
		}
		if left, _ := os.ReadFile(path); len(left) != whole {
			t.Fatalf("cut after %d bytes: %d bytes are left, wanted %d", n, len(left), whole)
		}
		// The next note stands on a line of its own.
		notes := len(j.Notes)
		if err := j.Note("link", fact{"ib1"}); err != nil {
			t.Fatal(err)
		}
		if j = again(t, path); len(j.Notes) != notes+1 || len(j.Gaps) != 0 {
			t.Fatalf("cut after %d bytes, then noted: %d notes, wanted %d; gaps %v", n, len(j.Notes), notes+1, j.Gaps)
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
			if len(j.Notes) != want {
				t.Fatalf("bit %d of byte %d: %d notes, wanted %d", bit, n, len(j.Notes), want)
			}
			if (j.Header.Job == 4711) == lost(0) {
				t.Fatalf("bit %d of byte %d: header %+v", bit, n, j.Header)
			}
			// Note 2 is struck: without it nothing is missing. The strike might have been a note.
			if missing := lost(1) || lost(3); (len(j.Gaps) > 0) != missing {
				t.Fatalf("bit %d of byte %d: gaps %v", bit, n, j.Gaps)
			}
			for _, note := range j.Notes {
				if note.Struck != (note.Number == 2 && !lost(3)) {
					t.Fatalf("bit %d of byte %d: note %+v", bit, n, note)
				}
			}
		}
	}
}

func TestWhereNotesAreMissingIsKnown(t *testing.T) {
	header := `{"version":1,"job":4711,"run":"0"}`
	note := func(n int) string { return fmt.Sprintf(`{"note":%d,"kind":"rdma","data":{}}`, n) }
	strike := func(n int) string { return fmt.Sprintf(`{"strike":%d}`, n) }
	tests := []struct {
		name  string
		lines []string // sealed; "!" is rubbish
		notes []int
		after []int
	}{
		{"nothing", nil, nil, nil},
		{"a header", []string{header}, nil, nil},
		{"no header", []string{note(1)}, []int{1}, nil},
		{"a line in the middle", []string{header, note(1), note(3)}, []int{1, 3}, []int{1}},
		{"the first ones", []string{header, note(3)}, []int{3}, []int{0}},
		{"two places", []string{header, note(2), note(4)}, []int{2, 4}, []int{0, 2}},
		{"what is struck is not missed", []string{header, note(1), note(3), strike(2)}, []int{1, 3}, nil},
		{"rubbish at the end", []string{header, note(1), "!"}, []int{1}, []int{1}},
		{"rubbish between notes without a gap", []string{header, note(1), "!", note(2)}, []int{1, 2}, nil},
		{"rubbish after a strike", []string{header, note(1), note(2), strike(1), "!"}, []int{1, 2}, nil},
		{"a note twice", []string{header, note(1), note(2), note(1)}, []int{1, 2}, nil},
		{"a header twice", []string{header, note(1), header}, []int{1}, nil},
		{"notes in another order", []string{header, note(2), note(1)}, []int{1, 2}, nil},
		{"a note twice, not the same", []string{header, note(1), `{"note":1,"kind":"link","data":{}}`}, []int{1}, []int{1}},
		{"neither note nor strike", []string{header, note(1), `{}`}, []int{1}, []int{1}},
		{"no object", []string{header, `[]`}, nil, []int{0}},
		{"a number beyond all", []string{header, note(1 << 40)}, []int{1 << 40}, []int{0}},
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
			var notes, after []int
			for _, n := range j.Notes {
				notes = append(notes, n.Number)
			}
			for _, g := range j.Gaps {
				after = append(after, g.After)
			}
			if !slices.Equal(notes, tt.notes) || !slices.Equal(after, tt.after) {
				t.Errorf("notes %v, gaps %+v; wanted %v, gaps after %v", notes, j.Gaps, tt.notes, tt.after)
			}
			if left, _ := os.ReadFile(path); !bytes.Equal(left, text) {
				t.Errorf("the journal was changed to %q", left)
			}
		})
	}
}

func TestAShortenedJournalGoesOnAfterTheNoteThatIsLeft(t *testing.T) {
	path, text := write(t)
	j := reopen(t, path, text)
	if err := j.Shorten(1); err != nil {
		t.Fatal(err)
	}
	if len(j.Notes) != 1 {
		t.Errorf("notes %+v", j.Notes)
	}
	if j = again(t, path); len(j.Notes) != 1 || len(j.Gaps) != 0 || j.Header.Job != 4711 {
		t.Errorf("read again: notes %+v, gaps %v", j.Notes, j.Gaps)
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
