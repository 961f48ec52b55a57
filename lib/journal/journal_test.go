package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gresnet/lib/journal"
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
		if err := os.WriteFile(path, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		whole := bytes.LastIndexByte(text[:n], '\n') + 1
		lines := bytes.Count(text[:n], []byte{'\n'})
		j, err := journal.Open(path)
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
		if want := min(max(lines-1, 0), 2); len(j.Notes) != want {
			t.Fatalf("cut after %d bytes: %d notes, wanted %d", n, len(j.Notes), want)
		}
		j.Close()
		if left, _ := os.ReadFile(path); len(left) != whole {
			t.Fatalf("cut after %d bytes: %d bytes are left, wanted %d", n, len(left), whole)
		}
	}
}

func TestAFlippedBitIsDamageAndWhatStandsBeforeItIsKept(t *testing.T) {
	path, text := write(t)
	for n := range text {
		for bit := range 8 {
			broken := bytes.Clone(text)
			broken[n] ^= 1 << bit
			if err := os.WriteFile(path, broken, 0o600); err != nil {
				t.Fatal(err)
			}
			j, err := journal.Open(path)
			lastNewline := n == len(text)-1
			switch {
			case lastNewline: // reads as a tail that was cut
				if err != nil {
					t.Errorf("bit %d of byte %d: %v", bit, n, err)
				}
			case !errors.Is(err, journal.ErrDamaged):
				t.Errorf("bit %d of byte %d: %v, wanted damage", bit, n, err)
			}
			if j == nil {
				continue
			}
			if want := max(bytes.Count(text[:n], []byte{'\n'})-1, 0); len(j.Notes) < min(want, 2) {
				t.Errorf("bit %d of byte %d: %d notes, wanted at least %d", bit, n, len(j.Notes), want)
			}
			j.Close()
			if left, _ := os.ReadFile(path); !lastNewline && !bytes.Equal(left, broken) {
				t.Errorf("bit %d of byte %d: a damaged journal was changed", bit, n)
			}
		}
	}
}

func TestAnotherVersionIsNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j, err := journal.Create(path, journal.Header{Job: 1, Run: "0"})
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	text, _ := os.ReadFile(path)
	for _, version := range []string{"0", "2"} {
		object := bytes.Replace(text[9:len(text)-1], []byte(`"version":1`), []byte(`"version":`+version), 1)
		if err := os.WriteFile(path, journal.Seal(object), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := journal.Open(path); !errors.Is(err, journal.ErrVersion) {
			t.Errorf("version %s: %v", version, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte(""))
	f.Add(journal.Seal([]byte(`{"version":1,"job":1,"run":"0"}`)))
	f.Add(append(journal.Seal([]byte(`{"version":1,"job":1,"run":"0"}`)), journal.Seal([]byte(`{"note":1,"kind":"rdma","data":{}}`))...))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		j, err := journal.Open(path)
		if err != nil {
			if left, _ := os.ReadFile(path); !bytes.Equal(left, text) {
				t.Errorf("a journal that was not read was changed: %v", err)
			}
			return
		}
		notes := len(j.Notes)
		j.Close()
		// What was read once reads the same again.
		j, err = journal.Open(path)
		if err != nil || len(j.Notes) != notes {
			t.Fatalf("read again: %v", err)
		}
		j.Close()
	})
}
