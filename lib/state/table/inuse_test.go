package table_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/state/table"
	"gresnet/test/seed"
)

// inUse is what other programs read in a state directory. No file means what an empty one does.
func inUse(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "in-use"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

func TestAnHCAInUseHasALineForEachJobThatHasIt(t *testing.T) {
	dir := t.TempDir()
	port := func(name string) node.Port { return node.Port{Num: 1, Interface: name} }
	whole := node.HCA{ID: node.ID{GUID: "a", PCI: "0000:3b:00.0"}, Name: "old", Ports: []node.Port{port("ib0"), port("ib1"), port("")}}
	vf := node.HCA{ID: node.ID{PCI: "0000:5e:00.0", VF: "2"}, Function: "0000:5e:00.3", Ports: []node.Port{port("enp94s0v2")}}
	soft := node.HCA{ID: node.ID{GUID: "c"}}
	slot := func(number string) node.ID { id := whole.ID; id.Slot = number; return id }
	claims := []table.Claim{
		{HCA: whole.ID, Name: "mlx5_0", Job: 4711}, {HCA: vf.ID, Name: "mlx5_8", Job: 4711}, {HCA: soft.ID, Name: "rxe0", Job: 12},
		{HCA: node.ID{GUID: "gone", PCI: "0000:01:00.0"}, Name: "mlx5_9", Job: 7}, {HCA: node.ID{GUID: "q"}, Name: "mlx5_7", Job: 9, Quarantined: "it hangs"},
	}
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	set := func(claims ...table.Claim) {
		must(t, table.Folder(dir).Update(t.Context(), func(t *table.Table) error {
			t.HCAs, t.Claims = []node.HCA{whole, vf, soft}, claims
			return nil
		}))
	}
	set(claims...)
	want := "rxe0 - - 12\nmlx5_9 0000:01:00.0 - 7\nmlx5_0 0000:3b:00.0 ib0,ib1 4711\nmlx5_8 0000:5e:00.3 enp94s0v2 4711\n"
	if got := inUse(t, dir); got != want {
		t.Errorf("got\n%s\nwanted\n%s", got, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "in-use")); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	set(table.Claim{HCA: slot("0"), Name: "mlx5_0", Job: 1}, table.Claim{HCA: slot("1"), Name: "mlx5_0", Job: 2})
	if got, want := inUse(t, dir), "mlx5_0 0000:3b:00.0 ib0,ib1 1\nmlx5_0 0000:3b:00.0 ib0,ib1 2\n"; got != want {
		t.Errorf("slots: got\n%s\nwanted\n%s", got, want)
	}
	set()
	if got := inUse(t, dir); got != "" {
		t.Errorf("nothing is in use, and the list has\n%s", got)
	}
}

// A kill leaves the list and the table as they were after any of the writes, the list first. What is
// claimed in the table is in the list then, and whoever comes next makes the two agree, even if
// he has nothing to change.
func TestTheListHasWhatIsInUseAfterAKillAndIsFixedByWhoeverComesNext(t *testing.T) {
	dir := t.TempDir()
	f := table.Folder(dir)
	for round := range 500 {
		change := func(t *table.Table) error {
			if len(t.Claims) > 0 && seed.IntN(2) == 0 {
				t.Release(t.Claims[seed.IntN(len(t.Claims))].Job, "", table.OwnClaims(nil, false), nil)
			} else {
				h := node.HCA{ID: node.ID{GUID: fmt.Sprint(round)}, Name: fmt.Sprint("mlx5_", round)}
				t.HCAs, t.Claims = append(t.HCAs, h), append(t.Claims, table.Claim{HCA: h.ID, Name: h.Name, Job: uint32(round)})
			}
			return nil
		}
		now, err := f.Read()
		must(t, err)
		switch seed.IntN(5) {
		case 0: // killed between the list and the table
			must(t, change(&now))
			must(t, table.WriteInUse(f, &now))
			continue
		case 1: // killed while it wrote the list
			must(t, os.WriteFile(filepath.Join(dir, "in-use.new"), []byte("mlx5_"), 0o600))
			continue
		case 2: // somebody else's doing
			must(t, os.WriteFile(filepath.Join(dir, "in-use"), []byte("garbage\n"), 0o600))
			change = func(*table.Table) error { return nil }
		}
		must(t, f.Update(t.Context(), change))
		now, err = f.Read()
		must(t, err)
		if got, want := inUse(t, dir), string(now.InUse()); got != want || strings.Count(got, "\n") != len(now.Claims) {
			t.Fatalf("round %d: the list is\n%s\nthe table has\n%s", round, got, want)
		}
	}
}

func TestATableIsWrittenThoughItsListCannotBe(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "in-use", "x"), 0o755))
	f := table.Folder(dir)
	c, err := f.Begin(t.Context())
	must(t, err)
	c.Table.Claims = []table.Claim{{HCA: node.ID{GUID: "a"}, Job: 1}}
	must(t, c.Commit())
	c.Close()
	if c.Unlisted == nil || !errors.Is(c.Unlisted, syscall.EEXIST) && !errors.Is(c.Unlisted, syscall.EISDIR) && !errors.Is(c.Unlisted, syscall.ENOTDIR) {
		t.Errorf("it says %v", c.Unlisted)
	}
	if now, err := f.Read(); err != nil || len(now.Claims) != 1 {
		t.Errorf("claims %+v, %v", now.Claims, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "in-use.new")); !os.IsNotExist(err) {
		t.Errorf("a half is left: %v", err)
	}
}
