package main

import (
	"os/exec"
	"strings"
	"testing"
)

// lines returns those of the tests below a folder in which git finds a pattern.
func lines(t *testing.T, pattern, folder string) (all []string) {
	t.Helper()
	out, err := exec.Command("git", "-C", "../..", "grep", "--untracked", "-h", pattern, "--", folder+"*_test.go").Output()
	if err != nil {
		t.Fatalf("git grep %s: %v", pattern, err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// A call elsewhere would skip a test that no run makes up for, and a name that two tests have, both of them.
func TestWhatIsLeftOfTheQuickRunIsRunAfterIt(t *testing.T) {
	all, err := findSlow("../..")
	if err != nil {
		t.Fatal(err)
	}
	if calls := lines(t, "netnstest[.]Slow(", ""); len(calls) != all.count() {
		t.Errorf("%d tests call netnstest.Slow, and it is the first statement of %d", len(calls), all.count())
	}
	declared := map[string]int{}
	for _, line := range lines(t, "^func Test", "") {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "func "), "(")
		declared[name]++
	}
	for _, names := range all {
		for _, name := range names {
			if declared[name] != 1 {
				t.Errorf("%d tests have the name %s", declared[name], name)
			}
		}
	}
	kills, others := all.split("Kill")
	if tests := lines(t, "^func Test[A-Za-z]*Kill", "lib/lease/"); len(tests) != len(kills["./lib/lease"]) {
		t.Errorf("lib/lease has %d tests of kills, and %d call netnstest.Slow", len(tests), len(kills["./lib/lease"]))
	}
	if kills.count() == 0 || others.count() == 0 || kills.count()+others.count() != all.count() {
		t.Errorf("of %d tests %d are of kills and %d others", all.count(), kills.count(), others.count())
	}
}
