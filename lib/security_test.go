package lib_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A claim of docs/security.md that holds names what attacks it: a test of Go, or a file of the plugin's harness.
func TestWhatHoldsByThePageOnSecurityNamesATestThatIsThere(t *testing.T) {
	text, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testsOfTheTree(t)
	named := regexp.MustCompile("`(Test[A-Z]\\w*|spank/test/\\w+\\.c)`")
	item := regexp.MustCompile(`(?m)^- `)
	for section := range strings.SplitSeq(string(text), "\n## ") {
		for _, claim := range item.Split(section, -1)[1:] {
			claim, _, _ = strings.Cut(claim, "\n\n")
			attacks := named.FindAllStringSubmatch(claim, -1)
			if strings.HasPrefix(claim, "Holds") && len(attacks) == 0 {
				t.Errorf("no test is named that attacks this:\n%s", claim)
			}
		}
	}
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		_, err := os.Stat(filepath.Join("..", m[1]))
		if !tests[m[1]] && errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is no %s", m[1])
		}
	}
}

// testsOfTheTree returns the names of all tests.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	begins := regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
	tests := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			if d != nil && d.IsDir() && d.Name() == ".cache" {
				return fs.SkipDir
			}
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range begins.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
