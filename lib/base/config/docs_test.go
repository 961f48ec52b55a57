package config_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/test/golden"
)

// sections of docs/configuration.md, and a document that has all that the table
// must have, to which an unknown key can be added.
var sections = []section{
	{"slurm", "## `[slurm]`", "[slurm]\n"},
	{"deadline", "## `[deadline]`", "[deadline]\n"},
	{"access", "## `[access]`", "[access]\n"},
	{"limits", "## `[limits]`", "[limits]\n"},
	{"environment", "## `[environment]`", "[environment]\n"},
	{"log", "## `[log]`", "[log]\n"},
	{"metrics", "## `[metrics]`", "[metrics]\n"},
	{"accounting", "## `[accounting]`", "[accounting]\n"},
	{"health", "## `[health]`", "[health]\n"},
	{"hooks", "## `[hooks]`", "[hooks]\n"},
	{"rdma", "## `[rdma]`", "[rdma]\n"},
	{"uplink", "## `[uplink]`", "[uplink]\n"},
	{"overlay", "## `[overlay]`", "[overlay]\n"},
	{"policy", "## `[[policy]]`", "[[policy]]\ncount = 0\n"},
	{"hca.vf", "### What the PF does for a VF", "[[hca]]\nindex = 0\npart = \"vf\"\ncount = 1\nmatch = \"pci=3b:00.0\"\n[hca.vf]\n"},
	{"hca", "## `[[hca]]`", "[[hca]]\nindex = 0\nmatch = \"rdma=a\"\n"},
}

type section struct{ name, heading, text string }

// listHead is before a list of keys.
const listHead = "\nKeys:\n\n"

// said is what the source says of a key, in the comment before its name where it is allowed.
type said struct{ key, value, text string }

// TestTheListsOfKeysAreThoseOfTheSource makes the lists of docs/configuration.md (go test -update): the
// keys with default and meaning as the source has them.
func TestTheListsOfKeysAreThoseOfTheSource(t *testing.T) {
	page, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	of := allowed(t)
	for _, s := range sections {
		keys := of[s.name]
		if known := knownKeys(t, s.text); len(keys) != len(known) {
			t.Errorf("%s: the source says something of %d keys, there are %d", s.name, len(keys), len(known))
		}
		list := ""
		for _, k := range keys {
			if k.value != "" {
				k.value = ", " + k.value
			}
			list += fmt.Sprintf("- `%s`%s: %s\n", k.key, k.value, k.text)
		}
		before, rest, found := strings.Cut(text, "\n"+s.heading)
		at := strings.Index(rest, listHead)
		if next := strings.Index(rest, "\n##"); !found || at < 0 || next >= 0 && next < at {
			t.Fatalf("docs/configuration.md has no list of keys below %s", s.heading)
		}
		at += len(listHead)
		end := at
		for strings.HasPrefix(rest[end:], "- ") {
			end += strings.Index(rest[end:], "\n") + 1
		}
		text = before + "\n" + s.heading + rest[:at] + list + rest[end:]
	}
	golden.Check(t, "../../../../docs/configuration.md", text)
}

// allowed reads what the source says of the keys of each table.
func allowed(t *testing.T) map[string][]said {
	t.Helper()
	all := map[string][]said{}
	set := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && !strings.HasSuffix(name, "_test.go") {
				ast.Inspect(f, func(n ast.Node) bool {
					if call, is := n.(*ast.CallExpr); is {
						if s, is := call.Fun.(*ast.SelectorExpr); is && s.Sel.Name == "Allow" && fmt.Sprint(s.X) == "t" {
							all[tableOf(f)] = keysOf(t, set, file, call)
						}
					}
					return true
				})
			}
		}
	}
	return all
}

// tableOf returns the table that a function reads.
func tableOf(f *ast.FuncDecl) string {
	name := strings.TrimPrefix(f.Name.Name, "read")
	if f.Recv != nil {
		name = fmt.Sprint(f.Recv.List[0].Type.(*ast.StarExpr).X)
	}
	if name == "VF" {
		return "hca.vf"
	}
	return strings.ToLower(name)
}

func keysOf(t *testing.T, set *token.FileSet, file *ast.File, call *ast.CallExpr) (keys []said) {
	t.Helper()
	for _, arg := range call.Args {
		key, err := strconv.Unquote(arg.(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		value, text, found := "", "", false
		for _, c := range file.Comments {
			if set.Position(c.End()).Line+1 == set.Position(arg.Pos()).Line {
				value, text, found = strings.Cut(strings.Join(strings.Fields(c.Text()), " "), "|")
			}
		}
		if !found || text == "" {
			t.Errorf("%s: write a comment before it: DEFAULT | what the key means", set.Position(arg.Pos()))
		}
		keys = append(keys, said{key, strings.TrimSpace(value), strings.TrimSpace(text)})
	}
	return keys
}

func TestDocumentedDefaultsAreTheDefaults(t *testing.T) {
	for _, s := range sections {
		if strings.HasPrefix(s.text, "[[") {
			continue // of what is not there nothing is the default
		}
		for _, row := range rows(documentOf(t, s.heading)) {
			value := strings.Trim(row.value, "`")
			if value == row.value {
				continue // words for people: there is none, or it is looked for
			}
			got, err := config.Parse([]byte(s.text+row.key+" = "+value+"\n"), "f")
			if err != nil || !reflect.DeepEqual(got, config.Default()) {
				t.Errorf("%s.%s is %s in docs/configuration.md; with that the configuration is %+v, %v", s.name, row.key, value, got, err)
			}
		}
	}
}

// knownKeys returns those that the hint for an unknown one lists.
func knownKeys(t *testing.T, text string) []string {
	t.Helper()
	_, err := config.Parse([]byte(text+"such_a_key_there_is_not = 1\n"), "f")
	list, listed := strings.CutPrefix(hint.Of(err), "known keys are ")
	if !listed {
		t.Fatalf("%q with an unknown key: %v has the hint %q", text, err, hint.Of(err))
	}
	return strings.Split(list, ", ")
}

// documentOf returns a section of the document, without the headings below it.
func documentOf(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n"+heading)
	if !found {
		t.Fatalf("docs/configuration.md has no %s", heading)
	}
	section, _, _ = strings.Cut(section, "\n##")
	return section
}

type row struct{ key, value string }

// rows returns those of the section's list of keys.
func rows(section string) []row {
	_, list, found := strings.Cut(section, listHead)
	if !found {
		return nil
	}
	var all []row
	for line := range strings.SplitSeq(list, "\n") {
		m := regexp.MustCompile("^- `([a-z_]+)`(?:, (.*?))?: ").FindStringSubmatch(line)
		if m == nil {
			break
		}
		all = append(all, row{m[1], m[2]})
	}
	return all
}
