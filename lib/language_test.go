package lib_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gresnet/test/golden"
)

// forms are ways to write that a reader must decode. CONTRIBUTING.md says what to write in their place.
var forms = []struct {
	name  string
	found *regexp.Regexp
}{
	{"of which", regexp.MustCompile(`(?i)\bof which\b`)},
	{"anew", regexp.MustCompile(`(?i)\banew\b`)},
	{"what … of", regexp.MustCompile(`(?i)\bwhat [a-z']+( [a-z']+){0,3} (has|have|had|is|makes|gives|knows) of\b`)},
}

// isWhat is the beginning of a function's comment that says what the function is, where a reader wants
// what it returns or does.
const isWhat = "X is …"

// TestLanguageBecomesNoHarderToRead counts the forms in the comments, texts and documents of each folder,
// and holds the counts against testdata/language.txt. The sum of a form may only fall: go test ./lib -run
// Language -update writes the counts down when it has.
func TestLanguageBecomesNoHarderToRead(t *testing.T) {
	counts, places := map[string]int{}, map[string][]string{}
	count := func(form, path string, line int) {
		key := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(path), ".."), "/") + ": " + form
		counts[key]++
		places[key] = append(places[key], fmt.Sprintf("%s:%d", strings.TrimPrefix(path, "../"), line))
	}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "dist", "bin"}, d.Name())):
			return filepath.SkipDir
		case !slices.Contains([]string{".go", ".c", ".h", ".md"}, filepath.Ext(path)) || slices.Contains([]string{"language_test.go", "CONTRIBUTING.md"}, filepath.Base(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			for _, f := range forms {
				if f.found.Match(line) {
					count(f.name, path, i+1)
				}
			}
		}
		if filepath.Ext(path) == ".go" {
			return functions(path, text, func(line int) { count(isWhat, path, line) })
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var now strings.Builder
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&now, "%s: %d\n", key, counts[key])
	}
	sums := map[string]int{}
	for key, n := range counts {
		_, form, _ := strings.Cut(key, ": ")
		sums[form] += n
	}
	was, most := ceilings(t)
	for form, n := range sums {
		if n <= most[form] {
			continue
		}
		t.Errorf("%q is there %d times, and %d are the most: write it as CONTRIBUTING.md says", form, n, most[form])
		for key, n := range counts {
			if strings.HasSuffix(key, ": "+form) && n > was[key] {
				t.Errorf("one of %s", strings.Join(places[key], " "))
			}
		}
	}
	if t.Failed() {
		t.FailNow() // also with -update
	}
	golden.Check(t, "language.txt", now.String())
	if t.Failed() {
		t.Log("if they fell or moved: go test ./lib -run Language -update")
	}
}

// functions calls f for each function whose comment begins with what the function is.
func functions(path string, text []byte, f func(line int)) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.ParseComments)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		if fn, is := d.(*ast.FuncDecl); is && fn.Doc != nil {
			words := strings.Fields(fn.Doc.Text())
			if len(words) > 1 && words[0] == fn.Name.Name && (words[1] == "is" || words[1] == "are") {
				f(set.Position(fn.Pos()).Line)
			}
		}
	}
	return nil
}

// ceilings reads how often each form was there, by folder and in all.
func ceilings(t *testing.T) (was, most map[string]int) {
	t.Helper()
	text, err := os.ReadFile("testdata/language.txt")
	if err != nil {
		t.Fatal(err)
	}
	was, most = map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		i := strings.LastIndex(line, ": ")
		n, err := strconv.Atoi(strings.TrimSpace(line[i+2:]))
		if err != nil {
			t.Fatal(err)
		}
		was[line[:i]] = n
		_, form, _ := strings.Cut(line[:i], ": ")
		most[form] += n
	}
	return was, most
}
