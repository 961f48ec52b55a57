package state_test

import (
	"os"
	"testing"

	"gresnet/lib/state"
)

// lease makes a lease with all files that one can have but those that its undos remove.
func lease(t *testing.T) state.Lease {
	t.Helper()
	dir := state.Dir(t.TempDir())
	if err := dir.Make(); err != nil {
		t.Fatal(err)
	}
	l := dir.Lease(4711)
	if err := os.Mkdir(string(l), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{l.Journal(), l.Env(), l.NewEnv(), l.Limits(), l.Hosts(), l.ResolvConf(), l.Mark()} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

func TestALeaseIsRemovedWithAllItsFilesAndMoreThanOnce(t *testing.T) {
	l := lease(t)
	for range 2 {
		if err := l.Remove(); err != nil || l.Exists() {
			t.Fatalf("it exists: %t, %v", l.Exists(), err)
		}
	}
}

func TestALeaseStaysWithItsJournalWhileAnythingIsThereThatTheJournalMayBeAbout(t *testing.T) {
	for name, path := range map[string]func(state.Lease) string{
		"a namespace": state.Lease.Netns, "device nodes": state.Lease.Devices,
		"something unknown": func(l state.Lease) string { return string(l) + "/other" },
	} {
		l := lease(t)
		if err := os.WriteFile(path(l), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		err := l.Remove()
		_, journal := os.Stat(l.Journal())
		if err == nil || l.Begun() == (name == "something unknown") || l.Begun() && journal != nil {
			t.Errorf("%s: removed: %v, begun: %t, the journal: %v", name, err, l.Begun(), journal)
		}
	}
}

func TestALeaseCountsUntilItsEndWhateverHasTheNameOfEnv(t *testing.T) {
	l := lease(t)
	for _, folder := range []bool{false, true} {
		if folder {
			if err := os.MkdirAll(l.Env()+"/x", 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if !l.Counts() {
			t.Error("it does not count")
		}
		if err := l.End(); err != nil || l.Counts() {
			t.Errorf("it counts after its end: %v", err)
		}
	}
}
