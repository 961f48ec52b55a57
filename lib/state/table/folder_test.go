package table_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/kernel/devnode"
	"gresnet/lib/kernel/ports"
	"gresnet/lib/state/table"
)

var (
	hcaA = node.HCA{ID: node.ID{GUID: "a", PCI: "0000:01:00.0"}, Name: "mlx5_0", Ports: []node.Port{{Num: 1, Interface: "ib0"}}}
	hcaB = node.HCA{ID: node.ID{GUID: "b", PCI: "0000:02:00.0"}, Name: "mlx5_1"}
	hcaC = node.HCA{ID: node.ID{PCI: "0000:03:00.0", VF: "10"}, Name: "mlx5_2", GUID: "c", Function: "0000:03:01.2"}
	full = table.Table{
		HCAs:   []node.HCA{hcaC, hcaA, hcaB},
		Claims: []table.Claim{{HCA: hcaA.ID, Name: "mlx5_0", Job: 1, Run: "0", UID: 1000, Since: time.Unix(1, 5)}},
	}
	// rich is a table with something of each kind.
	rich = table.Table{
		HCAs: full.HCAs,
		Claims: []table.Claim{
			{HCA: hcaA.ID, Name: "mlx5_0", Job: 1, Run: "2/s8KQ3V7Z1", UID: 1000, Since: time.Unix(1, 5), Quarantined: "it \"hangs\"\n"},
			{HCA: slot(hcaB), Name: "mlx5_1", Job: 2, Run: "0", UID: 1001, Since: time.Unix(2, 0)},
			{HCA: hcaC.ID, Name: "mlx5_2", Job: 3, Run: "0", UID: 7, Since: time.Unix(3, 0).Local(), Quarantined: "nobody knows", Doubt: true},
		},
		Uplinks: []table.Uplink{
			{Type: "veth", Address: netip.MustParseAddr("169.254.1.2"), Job: 1, Run: "2/s8KQ3V7Z1", Auto: true},
			{Type: "macvlan", Address: netip.MustParseAddr("fd00::2"), Job: 2, Run: "0"},
		},
		Hooked: []ports.Before{{Index: 3, Name: "eth0", Hooks: true}},
		Shared: []table.Shared{{HCA: hcaB.ID, Name: "mlx5_1", Nodes: []devnode.Node{{Kind: "uverbs", Access: devnode.Access{Mode: 0o666}}}}},
	}
)

func slot(h node.HCA) node.ID {
	h.ID.Slot = "3"
	return h.ID
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// text is all of a table that two can be compared by.
func text(t *testing.T, now table.Table) string {
	t.Helper()
	for i := range now.Claims {
		now.Claims[i].Since = now.Claims[i].Since.UTC()
	}
	text, err := json.Marshal(now)
	must(t, err)
	return string(text)
}

// fill writes a table.
func fill(t *testing.T, f table.Folder, now table.Table) {
	t.Helper()
	must(t, f.Update(t.Context(), func(before *table.Table) error { *before = now; return nil }))
}

// paths returns the entries of a state directory, and what each has.
func paths(t *testing.T, f table.Folder) map[string]string {
	t.Helper()
	all := map[string]string{}
	must(t, filepath.WalkDir(string(f), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		what, err := os.Readlink(path)
		if err != nil {
			text, err := os.ReadFile(path)
			must(t, err)
			what = string(text)
		}
		rel, err := filepath.Rel(string(f), path)
		all[rel] = what
		return err
	}))
	return all
}

func TestATableIsReadAsItWasWritten(t *testing.T) {
	f := table.Folder(t.TempDir())
	for _, want := range []table.Table{rich, full, {}, rich, {}} {
		fill(t, f, want)
		got, err := f.Read()
		must(t, err)
		if text(t, got) != text(t, want) || len(got.Unread) > 0 {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
	if left := slices.Sorted(maps.Keys(paths(t, f))); !slices.Equal(left, []string{"in-use", "node.lock", "version"}) {
		t.Errorf("an empty table has %q", left)
	}
}

func TestAListOfTheFoldersTellsAnAdministratorWhoHasWhat(t *testing.T) {
	f := table.Folder(t.TempDir())
	fill(t, f, rich)
	all := paths(t, f)
	for path, want := range map[string]string{
		"claims/a@0000:01:00.0":        "../jobs/1/2/s8KQ3V7Z1",
		"claims/b@0000:02:00.0,slot=3": "../jobs/2/0",
		"claims/0000:03:00.0,vf=10":    "",
		"uplinks/169.254.1.2":          "../jobs/1/auto/2/s8KQ3V7Z1",
		"uplinks/fd00::2":              "../jobs/2/macvlan/0",
		"numbers/0":                    "../hcas/0000:03:00.0,vf=10",
		"numbers/1":                    "../hcas/a@0000:01:00.0",
		"hooked/3":                     `{"index":3,"name":"eth0","hooks":true}` + "\n",
		"hcas/b@0000:02:00.0":          `{"id":{"guid":"b","pci":"0000:02:00.0"},"name":"mlx5_1"}` + "\n",
	} {
		if all[path] != want {
			t.Errorf("%s has %q, wanted %q", path, all[path], want)
		}
	}
	for path, want := range map[string]string{"quarantine/a@0000:01:00.0": `"quarantined":"it \"hangs\"\n"`, "quarantine/0000:03:00.0,vf=10": `"job":3,`, "shared/b@0000:02:00.0": "uverbs"} {
		if !strings.Contains(all[path], want) {
			t.Errorf("%s has %q", path, all[path])
		}
	}
	info, err := os.Lstat(filepath.Join(string(f), "claims", "a@0000:01:00.0"))
	must(t, err)
	if !info.ModTime().Equal(time.Unix(1, 5)) {
		t.Errorf("the link is of %v", info.ModTime())
	}
	for _, folder := range []string{"claims", "quarantine", "numbers"} {
		if info, err := os.Stat(filepath.Join(string(f), folder)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("users reach %s: %v, %v", folder, info.Mode(), err)
		}
	}
}

// What one entry may become: somebody has written there, removed it, or put something else there.
func TestAnEntryThatDoesNotReadCostsOneHCAAndNothingElse(t *testing.T) {
	whole := paths(t, func() table.Folder { f := table.Folder(t.TempDir()); fill(t, f, rich); return f }())
	concerns := map[string]node.ID{
		"claims/a@0000:01:00.0": hcaA.ID, "claims/b@0000:02:00.0,slot=3": slot(hcaB),
		"quarantine/a@0000:01:00.0": hcaA.ID, "quarantine/0000:03:00.0,vf=10": hcaC.ID,
		"numbers/0": {}, "numbers/1": {}, "numbers/2": {}, "shared/b@0000:02:00.0": hcaB.ID,
		"hcas/0000:03:00.0,vf=10": hcaC.ID, "hcas/a@0000:01:00.0": hcaA.ID, "hcas/b@0000:02:00.0": hcaB.ID,
	}
	for path := range whole {
		if path == "node.lock" || path == "version" || path == "in-use" {
			continue
		}
		for name, damage := range map[string]func(string) error{
			"rubbish": func(path string) error {
				return errors.Join(os.Remove(path), os.WriteFile(path, []byte("rubbish"), 0o600))
			},
			"nothing":  func(path string) error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600)) },
			"a link":   func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)) },
			"a folder": func(path string) error { return errors.Join(os.Remove(path), os.MkdirAll(path+"/x", 0o700)) },
		} {
			t.Run(path+" is "+name, func(t *testing.T) {
				f := table.Folder(t.TempDir())
				fill(t, f, rich)
				must(t, damage(filepath.Join(string(f), path)))
				now, err := f.Read()
				must(t, err)
				id := concerns[path]
				// No job gets the HCA.
				if c, held := now.Holder(id); id != (node.ID{}) && (!held || c.Quarantined == "" && !strings.HasPrefix(path, "hcas/")) {
					t.Errorf("the claim of %s is %+v, %v", id, c, held)
				}
				// The others stay as they were, and keep their numbers.
				for _, c := range rich.Claims {
					has := slices.ContainsFunc(now.Claims, func(o table.Claim) bool { return o.HCA == c.HCA && o.Job == c.Job && o.Run == c.Run })
					if !has && c.HCA != id {
						t.Errorf("the claim %+v is not among %+v", c, now.Claims)
					}
				}
				for i, h := range rich.HCAs {
					if i < len(now.HCAs) && now.HCAs[i].ID != h.ID && path != fmt.Sprint("numbers/", i) {
						t.Errorf("number %d is %v", i, now.HCAs[i])
					}
				}
				// It stays so when somebody changes something else, and a job is given what it had.
				must(t, f.Update(t.Context(), func(now *table.Table) error {
					now.Release(2, "0", table.OwnClaims(nil, false), nil)
					now.FreeUplink(2, "0")
					return nil
				}))
				after, err := f.Read()
				must(t, err)
				if _, held := after.Holder(id); id != (node.ID{}) && !held && path != "claims/b@0000:02:00.0,slot=3" {
					t.Errorf("%s is free: %+v", id, after.Claims)
				}
				// When a person lets jobs have the HCA, the entry is fixed or gone.
				must(t, f.Update(t.Context(), func(now *table.Table) error {
					now.Claims = slices.DeleteFunc(now.Claims, func(c table.Claim) bool { return c.HCA == id || c.HCA.GUID == "number "+filepath.Base(path) })
					return nil
				}))
				if after, err = f.Read(); err != nil {
					t.Fatal(err)
				}
				if c, held := after.Holder(id); id != (node.ID{}) && held && c.HCA == id {
					t.Errorf("it is held still: %+v", c)
				}
			})
		}
	}
}

func TestANumberThatSomebodyRemovedShiftsNoOther(t *testing.T) {
	f := table.Folder(t.TempDir())
	fill(t, f, full)
	must(t, os.Remove(filepath.Join(string(f), "numbers", "1")))
	for range 2 {
		now, err := f.Read()
		must(t, err)
		if len(now.HCAs) != 3 || now.HCAs[0].ID != hcaC.ID || now.HCAs[2].ID != hcaB.ID {
			t.Errorf("the HCAs are %+v", now.HCAs)
		}
		if c, held := now.Holder(now.HCAs[1].ID); !held || c.Quarantined == "" {
			t.Errorf("a job can have number 1: %+v", now.Claims)
		}
		must(t, f.Update(t.Context(), func(*table.Table) error { return nil }))
	}
}

func TestAFolderThatSomebodyRemovedLetsNobodyClaim(t *testing.T) {
	for _, folder := range []string{"claims", "quarantine", "numbers", "uplinks", "shared"} {
		f := table.Folder(t.TempDir())
		fill(t, f, rich)
		must(t, os.RemoveAll(filepath.Join(string(f), folder)))
		err := f.Update(t.Context(), func(*table.Table) error { t.Error("it changes"); return nil })
		if _, read := f.Read(); err == nil || read == nil {
			t.Errorf("%s: %v, %v", folder, err, read)
		}
	}
}

func TestClaimsAreReleasedByRun(t *testing.T) {
	n := table.Folder(t.TempDir())
	a, b := node.ID{GUID: "a"}, node.ID{GUID: "b"}
	fill(t, n, table.Table{Claims: []table.Claim{{HCA: a, Job: 1, Run: "0"}, {HCA: b, Job: 1, Run: "0"}, {HCA: node.ID{GUID: "c"}, Job: 1, Run: "1"}}})
	must(t, n.Update(t.Context(), func(t *table.Table) error {
		t.Release(1, "0", table.OwnClaims(nil, false), map[node.ID]string{b: "gone"})
		return nil
	}))
	now, err := n.Read()
	must(t, err)
	if len(now.Claims) != 2 || now.Claims[0].HCA != b || now.Claims[0].Quarantined != "gone" || now.Claims[0].Doubt || now.Claims[1].Run != "1" {
		t.Errorf("claims %+v", now.Claims)
	}
	if _, held := now.Holder(a); held {
		t.Error("a released HCA has a holder")
	}
	// The next rollback returned it.
	must(t, n.Update(t.Context(), func(t *table.Table) error { t.Release(1, "0", table.OwnClaims(nil, false), nil); return nil }))
	if now, _ = n.Read(); len(now.Claims) != 1 {
		t.Errorf("claims %+v", now.Claims)
	}
}

func TestAChangeThatFailsLeavesTheTable(t *testing.T) {
	f := table.Folder(t.TempDir())
	fill(t, f, rich)
	before, want := paths(t, f), errors.New("no")
	err := f.Update(t.Context(), func(t *table.Table) error { *t = table.Table{}; return want })
	if after := paths(t, f); err != want || !maps.Equal(before, after) {
		t.Errorf("%v: the folders are now %q", err, after)
	}
}

func TestClaimsOfManyAtOnceAreAllKept(t *testing.T) {
	n := table.Folder(t.TempDir())
	var wg sync.WaitGroup
	for job := range 50 {
		wg.Go(func() {
			err := n.Update(t.Context(), func(t *table.Table) error {
				t.Claims = append(t.Claims, table.Claim{HCA: node.ID{GUID: fmt.Sprint(job)}, Job: uint32(job)})
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if now, err := n.Read(); err != nil || len(now.Claims) != 50 {
		t.Errorf("%d claims, %v", len(now.Claims), err)
	}
}

// A reader takes no lock, and what stays claimed is claimed whenever he looks.
func TestNoReaderMissesAClaimWhileOthersComeAndGo(t *testing.T) {
	f := table.Folder(t.TempDir())
	var held []table.Claim
	for i := range 20 {
		held = append(held, table.Claim{HCA: node.ID{GUID: fmt.Sprintf("%02d", i)}, Job: 1, Run: "0", Since: time.Unix(1, 0)})
	}
	fill(t, f, table.Table{Claims: held})
	done := make(chan error)
	go func() {
		for i := range 300 {
			err := f.Update(t.Context(), func(t *table.Table) error {
				t.Claims = slices.DeleteFunc(t.Claims, func(c table.Claim) bool { return c.Job != 1 })
				if i%2 == 0 {
					t.Claims = append(t.Claims, table.Claim{HCA: node.ID{GUID: fmt.Sprintf("%02d+", i%20)}, Job: 2, Run: "0"})
				}
				return nil
			})
			if err != nil {
				done <- err
				return
			}
		}
		close(done)
	}()
	for {
		select {
		case err := <-done:
			must(t, err)
			return
		default:
		}
		now, err := f.Read()
		must(t, err)
		if n := len(slices.DeleteFunc(now.Claims, func(c table.Claim) bool { return c.Job != 1 })); n != len(held) {
			t.Fatalf("it sees %d of %d", n, len(held))
		}
	}
}

// FuzzEntry gives one entry any text: no table is read that is not written and read again as it was.
func FuzzEntry(f *testing.F) {
	for path, text := range map[string]string{
		"claims/a@0000:01:00.0": "../jobs/1/0", "claims/x": "../jobs/99999999999/0", "numbers/3": "../hcas/a@0000:01:00.0", "numbers/4000000000": "x",
		"quarantine/x": `{"hca":{"guid":"x"},"quarantined":"y"}`, "uplinks/fe80::1%25eth0": "../jobs/1/auto/0", "uplinks/::": "", "hooked/-1": "{}",
		"shared/a@0000:01:00.0": `{"hca":{"guid":"a","pci":"0000:01:00.0"}}`, "hcas/a@0000:01:00.0": "{}",
	} {
		f.Add(path, text)
	}
	f.Fuzz(func(t *testing.T, path, what string) {
		after, again := table.WithEntry(rich, path, what)
		// An entry of no HCA stays unread; what it costs stays so.
		if text(t, after) != text(t, again) && len(after.Unread) == len(again.Unread) {
			t.Errorf("%s with %q is\n%+v\nand then\n%+v", path, what, after, again)
		}
	})
}

// A kill may come between any two. test/model found it: CLAIM_BEFORE_ACCESS.
func TestNoKillBetweenTwoEntriesLeavesWhatLaterRunsMistake(t *testing.T) {
	written := func(folder string) int { return slices.Index(table.Written, folder) }
	removed := func(folder string) int { return slices.Index(table.Removed, folder) }
	for why, is := range map[string]bool{
		"who could open the nodes, without a slot, opens another job's": written("claims") < written("shared") && removed("shared") < removed("claims"),
		"a quarantine whose claim goes before it is written frees":      written("quarantine") < written("claims") && removed("quarantine") < removed("claims"),
		"a claim of an HCA without a number shifts others":              written("hcas") < written("numbers") && written("numbers") < written("claims"),
		"an address without the programs that judge leads nowhere":      written("hooked") < written("uplinks") && removed("uplinks") < removed("hooked"),
	} {
		if !is {
			t.Errorf("%s: %q and %q", why, table.Written, table.Removed)
		}
	}
}
