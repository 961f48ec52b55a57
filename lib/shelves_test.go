package lib_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxShelves is how many folders lib may have, so that a list of them tells the architecture.
const maxShelves = 9

// shelves reads the folders of lib from docs/architecture.md, from the top down.
func shelves(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, house, _ := strings.Cut(string(text), "\n## The house\n")
	house, _, _ = strings.Cut(house, "\n## ")
	for _, m := range regexp.MustCompile("(?m)^\\| `lib/([a-z]+)` \\| [^|]+ \\|$").FindAllStringSubmatch(house, -1) {
		list = append(list, m[1])
	}
	return list
}

func TestEachFolderOfLibHasASentence(t *testing.T) {
	listed := shelves(t)
	if len(listed) > maxShelves {
		t.Errorf("docs/architecture.md lists %d folders of lib, more than %d", len(listed), maxShelves)
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var there []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "testdata" {
			there = append(there, e.Name())
		}
	}
	slices.Sort(there)
	if sorted := slices.Sorted(slices.Values(listed)); !slices.Equal(sorted, there) {
		t.Errorf("docs/architecture.md lists the folders %v of lib, there are %v", sorted, there)
	}
}

func TestAFolderOfLibImportsOnlyFoldersBelowIt(t *testing.T) {
	listed := shelves(t)
	shelf := func(path string) int {
		name, _, _ := strings.Cut(strings.TrimPrefix(path, "gresnet/lib/"), "/")
		return slices.Index(listed, name)
	}
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, "gresnet/lib/") {
			continue
		}
		for _, i := range p.Imports {
			if strings.HasPrefix(i, "gresnet/lib/") && shelf(i) < shelf(p.ImportPath) {
				t.Errorf("%s imports %s, whose folder stands above its own", p.ImportPath, i)
			}
		}
	}
}
