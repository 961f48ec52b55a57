package report_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/hca/report"
	"gresnet/test/golden"
)

const head = `# JSON

The objects that the commands print with ` + "`--json`" + `, and the lines of the file of
[` + "`[accounting]`" + `](configuration.md#accounting-what-each-job-sent). This page is made from the source (lib/hca/report).

- ` + "`version`" + ` is %d in all of them. gresnet may add fields under a version: ignore those that you do not
  know. If a field goes, or means something else, all objects get another version.
- A field with a question mark is missing where there is nothing to say. A flag with one is ` + "`true`" + ` or missing.
  A field without a type is text.
- An HCA is the same object everywhere, with the fields that the command knows.
- The exit code is the same with and without ` + "`--json`" + `. What went wrong is on stderr, as text; stdout
  may be empty then.
- Times are as in RFC 3339. Addresses are text; those with a length are like 10.0.0.7/16.

Some uses:

    gresnet status --json | jq -r '.hcas[] | select(.state == "quarantined").name'
    gresnet scan --json | jq -r '.hcas[].ports[]? | select(.state != "ACTIVE") | .interface'
    gresnet plan --gres nic:2 --json | jq -r '.hcas[].ports[]?.addresses[]?'
    gresnet check --json | jq -r '.findings[] | select(.level == "error") | .id + " " + .text'
    jq -r '[.job, ([.hcas[].ports[].sent_bytes // 0] | add)] | @tsv' /var/lib/gresnet/jobs.jsonl
`

// object is a type of package report: what is said of it, and its fields as the page has them.
type object struct {
	name, doc string
	document  bool
	fields    []field
}

type field struct {
	name, kind, doc string
	object          string // the type of package report that it is made of
	optional        bool
}

// elsewhere says in which file the types of other packages are that package report uses.
var elsewhere = map[string]string{"ID": "../../base/node/hca.go", "Process": "../../kernel/proc/proc.go"}

// objects reads the types of package report, in the order of the source, and those elsewhere.
func objects(t *testing.T) (all []object) {
	t.Helper()
	all = objectsIn(t, "report.go", func(string) bool { return true })
	for _, name := range slices.Sorted(maps.Keys(elsewhere)) {
		all = append(all, objectsIn(t, elsewhere[name], func(other string) bool { return other == name })...)
	}
	if len(all) < 15 {
		t.Fatalf("only %d objects", len(all))
	}
	return all
}

// objectsIn reads the types of a file that are wanted.
func objectsIn(t *testing.T, path string, wanted func(name string) bool) (all []object) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		decl, is := d.(*ast.GenDecl)
		if !is || decl.Tok != token.TYPE {
			continue
		}
		spec := decl.Specs[0].(*ast.TypeSpec)
		if !wanted(spec.Name.Name) {
			continue
		}
		o := object{name: spec.Name.Name, doc: strings.Join(strings.Fields(decl.Doc.Text()), " ")}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			if len(f.Names) == 0 {
				o.document = true
				o.fields = append(o.fields, field{name: "version", kind: "number", doc: fmt.Sprintf("%d", report.Version)})
				continue
			}
			if !strings.Contains(f.Tag.Value, `json:"-"`) {
				o.fields = append(o.fields, fieldOf(t, o.name, f))
			}
		}
		all = append(all, o)
	}
	return all
}

func fieldOf(t *testing.T, of string, f *ast.Field) field {
	t.Helper()
	name, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
	doc := strings.TrimSpace(f.Comment.Text())
	if name == "" || doc == "" {
		t.Errorf("field %s of %s has no name in JSON, or no comment that says what it is", f.Names[0], of)
	}
	kind, object := kindOf(f.Type)
	return field{name, kind, doc, object, strings.HasPrefix(options, "omit")}
}

// kindOf returns what a type is in JSON, and the object that it is made of.
func kindOf(e ast.Expr) (kind, object string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return kindOf(e.X)
	case *ast.ArrayType:
		kind, object = kindOf(e.Elt)
		return "list of " + kind, object
	case *ast.MapType:
		kind, object = kindOf(e.Value)
		return kind + " by name", object
	case *ast.SelectorExpr:
		switch e.Sel.Name {
		case "Duration":
			return "number", ""
		case "Time":
			return "time", ""
		}
		if elsewhere[e.Sel.Name] != "" {
			return kindOf(e.Sel)
		}
		return "text", ""
	case *ast.Ident:
		switch e.Name {
		case "string":
			return "text", ""
		case "bool":
			return "flag", ""
		case "int", "uint32", "uint64", "float64":
			return "number", ""
		}
		return fmt.Sprintf("[%s](#%s)", e.Name, strings.ToLower(e.Name)), e.Name
	}
	return "?", ""
}

func TestEveryFieldIsOnThePage(t *testing.T) {
	var page strings.Builder
	fmt.Fprintf(&page, head, report.Version)
	for _, o := range objects(t) {
		fmt.Fprintf(&page, "\n## %s\n\n%s\n\n", o.name, o.doc)
		for _, f := range o.fields {
			about := ""
			if f.optional {
				about = "?"
			}
			if f.kind != "text" {
				about += ", " + f.kind
			}
			fmt.Fprintf(&page, "- `%s`%s: %s\n", f.name, about, f.doc)
		}
	}
	golden.Check(t, "../../../../docs/json.md", page.String())
}

// paths returns all fields of all documents: each by the way there, with its kind.
func paths(t *testing.T) (all []string) {
	t.Helper()
	byName := map[string]object{}
	list := objects(t)
	for _, o := range list {
		byName[o.name] = o
	}
	var walk func(o object, at string)
	walk = func(o object, at string) {
		for _, f := range o.fields {
			kind := f.kind
			if !f.optional {
				kind += ", always"
			}
			all = append(all, fmt.Sprintf("%s.%s: %s", at, f.name, kind))
			if f.object != "" {
				walk(byName[f.object], at+"."+f.name)
			}
		}
	}
	for _, o := range list {
		if o.document {
			walk(o, o.name)
		}
	}
	return all
}

func TestAFieldThatGoesOrChangesMakesAnotherVersion(t *testing.T) {
	file := fmt.Sprintf("version-%d.txt", report.Version)
	now := paths(t)
	before, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(before)) {
		if line = strings.TrimSpace(line); !slices.Contains(now, line) {
			t.Errorf("version %d has had %q: give Version another number, and say in CHANGELOG.md what changed", report.Version, line)
		}
	}
	if !t.Failed() {
		golden.Check(t, file, strings.Join(now, "\n")+"\n")
	}
}
