package table_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gresnet/lib/node"
	"gresnet/lib/table"
)

var (
	hcaA = node.HCA{ID: node.ID{GUID: "a", PCI: "0000:01:00.0"}, Name: "mlx5_0", Ports: []node.Port{{Num: 1, Interface: "ib0"}}}
	hcaB = node.HCA{ID: node.ID{GUID: "b"}, Name: "mlx5_1"}
	full = table.Table{
		Version: table.Version,
		HCAs:    []node.HCA{hcaA, hcaB},
		Claims:  []table.Claim{{HCA: hcaA.ID, Name: "mlx5_0", Gres: "nic", Job: 1, Run: "0", Since: time.Unix(1, 5).UTC()}},
	}
)

func TestATableInWhichOneBitIsFlippedOrThatIsCutAnywhereIsDamaged(t *testing.T) {
	text := table.Format(full)
	if got, err := table.Parse(text); err != nil || !reflect.DeepEqual(got, full) {
		t.Fatalf("%s reads as %+v, %v", text, got, err)
	}
	for n := range text {
		if _, err := table.Parse(text[:n]); !errors.Is(err, table.ErrDamaged) {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
		for bit := range 8 {
			broken := bytes.Clone(text)
			broken[n] ^= 1 << bit
			if _, err := table.Parse(broken); !errors.Is(err, table.ErrDamaged) {
				t.Errorf("bit %d of byte %d: %v", bit, n, err)
			}
		}
	}
}

// sealed is a table's text with something replaced and a checksum that agrees.
func sealed(t *testing.T, old, new string) []byte {
	t.Helper()
	text := string(table.Format(full))
	if !strings.Contains(text, old) {
		t.Fatalf("%s has no %s", text, old)
	}
	text = strings.Replace(text, old, new, 1)
	at := strings.Index(text, `"sum": "`) + len(`"sum": "`)
	return table.Seal([]byte(text[:at] + "00000000" + text[at+8:]))
}

func TestWhatATableMayNotSayThoughItsChecksumAgrees(t *testing.T) {
	claims := `"claims": [`
	first := text(t, claims)
	tests := []struct {
		name     string
		old, new string
		want     error
	}{
		{"another version", `"version": 1`, `"version": 2`, table.ErrVersion},
		{"another version and other words", `"claims": [`, `"leases": {}, "claims": [`, table.ErrDamaged},
		{"an HCA claimed twice", claims + first, claims + first + "," + first, table.ErrDamaged},
		{"an HCA that is there twice", `"guid": "b"`, `"guid": "a", "pci": "0000:01:00.0"`, table.ErrDamaged},
		{"a number for a word", `"name": "mlx5_1"`, `"name": 1`, table.ErrDamaged},
		{"half of it", `"hcas"`, `}"hcas"`, table.ErrDamaged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := table.File{Dir: t.TempDir()}
			path, broken := filepath.Join(n.Dir, "node.json"), sealed(t, tt.old, tt.new)
			must(t, os.WriteFile(path, broken, 0o644))
			called := false
			err := n.Update(t.Context(), func(*table.Table) error { called = true; return nil })
			if !errors.Is(err, tt.want) || called {
				t.Errorf("%v, wanted %v; changed: %v", err, tt.want, called)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(after, broken) {
				t.Errorf("the file became %q", after)
			}
		})
	}
}

// text is the one object in a list of the full table.
func text(t *testing.T, list string) string {
	t.Helper()
	_, after, _ := strings.Cut(string(table.Format(full)), list)
	object, _, ok := strings.Cut(after, "\n  ]")
	if !ok {
		t.Fatalf("no list %s", list)
	}
	return object
}

func TestATableIsMadeAnewOnlyIfItIsLostOrDamaged(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name  string
		text  []byte // nil: no file
		build func(*table.Table) error
		kept  bool
		err   bool
		after *table.Table // nil: as before
	}{
		{"sound", table.Format(full), fail, false, false, nil},
		{"none, and nothing is known", nil, func(*table.Table) error { return nil }, false, false, nil},
		{"none, and there are claims", nil, fillUp, false, false, &full},
		{"empty", []byte{}, fillUp, true, false, &full},
		{"rubbish", []byte("{}"), fillUp, true, false, &full},
		{"rubbish, and nothing can be known", []byte("{}"), fail, false, true, nil},
		{"another version", sealed(t, `"version": 1`, `"version": 7`), fillUp, false, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := table.File{Dir: t.TempDir()}
			path := filepath.Join(n.Dir, "node.json")
			if tt.text != nil {
				must(t, os.WriteFile(path, tt.text, 0o644))
			}
			kept, why, err := n.Rebuild(t.Context(), now, tt.build)
			if (err != nil) != tt.err || (kept != "") != tt.kept || tt.after != nil && why == nil {
				t.Errorf("kept %q, why %v, error %v", kept, why, err)
			}
			if kept != "" {
				if old, err := os.ReadFile(kept); err != nil || !bytes.Equal(old, tt.text) || !strings.HasSuffix(kept, "-20260102T030405") {
					t.Errorf("%s has %q, %v", kept, old, err)
				}
			}
			want := tt.text
			if tt.after != nil {
				want = table.Format(*tt.after)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(after, want) {
				t.Errorf("the table is now\n%swanted\n%s", after, want)
			}
		})
	}
}

func fail(*table.Table) error { return errors.New("not to be called, or in vain") }

func fillUp(t *table.Table) error { *t = full; return nil }

func TestWhatAJobHoldsHasItsHCAs(t *testing.T) {
	now := full
	hcas, claims := now.Of(1, "0")
	if !reflect.DeepEqual(hcas, []node.HCA{hcaA}) || !reflect.DeepEqual(claims, full.Claims) {
		t.Errorf("HCAs %+v, claims %+v", hcas, claims)
	}
	for _, none := range []struct {
		job uint32
		run string
	}{{1, "1"}, {2, "0"}} {
		if hcas, claims := now.Of(none.job, none.run); len(hcas)+len(claims) != 0 {
			t.Errorf("job %d run %s has %+v, %+v", none.job, none.run, hcas, claims)
		}
	}
}

// FuzzTable holds the table's two halves together: what reads is written so
// that it reads as the same, and what is written reads.
func FuzzTable(f *testing.F) {
	f.Add(table.Format(full), "0002:c903:00ab:cdef", "it \"hangs\"\n", uint32(7))
	f.Add(table.Format(table.Table{Version: table.Version}), "", "\xff", uint32(0))
	f.Add([]byte(`{"sum": "00000000"}`), "a", `"sum": "`, uint32(1))
	f.Fuzz(func(t *testing.T, text []byte, guid, reason string, job uint32) {
		// A checksum that agrees lets the rest be looked at.
		if at := bytes.Index(text, []byte(`"sum": "`)) + 8; at >= 8 && at+8 <= len(text) {
			text = bytes.Clone(text)
			copy(text[at:], "00000000")
			text = table.Seal(text)
		}
		if now, err := table.Parse(text); err == nil {
			again, err := table.Parse(table.Format(now))
			if err != nil || !reflect.DeepEqual(again, now) {
				t.Errorf("%q reads as %+v, which is written and read as %+v, %v", text, now, again, err)
			}
		}
		guid, reason = strings.ToValidUTF8(guid, "?"), strings.ToValidUTF8(reason, "?")
		made := table.Table{Version: table.Version, Claims: []table.Claim{{HCA: node.ID{GUID: guid}, Job: job, Quarantined: reason, Since: time.Unix(int64(job), 0).UTC()}}}
		read, err := table.Parse(table.Format(made))
		if err != nil || !reflect.DeepEqual(read, made) {
			t.Errorf("%+v is written and read as %+v, %v", made, read, err)
		}
	})
}
