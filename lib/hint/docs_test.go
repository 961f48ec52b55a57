package hint_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gresnet/test/golden"
)

// said is an error, or a finding of check's, and what to do about it, as the code has
// them: … is what is filled in.
type said struct{ problem, do string }

const head = `# Errors, and what to do

Every error that comes with a hint of its own, and the hint; … is what the program fills in. This
page does not list refused leases ([configuration.md](configuration.md#whose-fault-it-is)) and wrong
` + "`SLURM_`" + ` variables, which print hints of their own. All other errors say what failed, in the words of
the kernel or of Slurm, and end with the hint of the run: mend the cause, or look at
` + "`gresnet-prolog status`" + `.
`

// elsewhere are problems that their hint meets as a value, by the hint's beginning.
var elsewhere = map[string]string{
	"compare `rdma dev`":                "claim … for job …: no such HCA",
	"mend what is wrong with the HCA,":  "choose …: … (…): is quarantined",
	"see whether job … still runs here": "choose …: … (…): job … has it",
	"slurmd sets the SLURM_ variables":  "variable SLURM_…: …",
	"gresnet-prolog check says whether": "guard …: …",
	"is this node meant to have HCAs?":  "list RDMA devices: no RDMA subsystem in the kernel",
	"see … --help":                      "invalid value … for flag …: …",
	"write it like nic:2, nic:mlx5":     "--gres …: …",
	"… must be on a file system":        "…: read-only file system, or no space left on device",
	"let units with PrivateNetwork=":    "set the RDMA netns mode to …: …: …",
}

// TestEveryErrorIsDocumentedWithItsHint makes docs/errors.md out of the code (go test -update).
func TestEveryErrorIsDocumentedWithItsHint(t *testing.T) {
	var text strings.Builder
	text.WriteString(head)
	for _, part := range []struct {
		title, column string
		dirs          []string
		find          func(*ast.FuncDecl) []said
	}{
		{"Prolog, epilog and their commands", "error", []string{"../../lib", "../../prolog", "../../epilog"}, hints},
		{"The configuration", "error", []string{"../../lib/config"}, methods("fail")},
		{"What `gresnet-prolog check` finds", "finding", []string{"../../lib/check"}, functions("fail", "warn")},
	} {
		rows := rowsOf(t, part.dirs, part.find)
		if len(rows) < 10 {
			t.Errorf("%s: %d rows", part.title, len(rows))
		}
		fmt.Fprintf(&text, "\n## %s\n\n| %s | do |\n| --- | --- |\n", part.title, part.column)
		for _, r := range rows {
			fmt.Fprintf(&text, "| %s | %s |\n", cell(r.problem, "…"), cell(r.do, "correct line … of …"))
		}
	}
	text.WriteString("\n## What the plugin says, in the job's output and in slurmd's log\n\n| error | do |\n| --- | --- |\n")
	for _, r := range plugin(t) {
		fmt.Fprintf(&text, "| %s | %s |\n", cell(r.problem, "…"), cell(r.do, ""))
	}
	golden.Check(t, "../../../docs/errors.md", text.String())
}

// plugin is what the plugin's C code says with a hint.
func plugin(t *testing.T) (all []said) {
	t.Helper()
	files, err := filepath.Glob("../../spank/*.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`(?s)slurm_error\((.*?)\);\n`).FindAllStringSubmatch(string(text), -1) {
			words, format := "", true
			for _, token := range regexp.MustCompile(`"((?:[^"\\]|\\.)*)"|,|\b[A-Z][A-Z_]+\b`).FindAllStringSubmatch(call[1], -1) {
				switch {
				case token[0] == ",":
					format = false
				case token[0][0] == '"':
					words += token[1]
				case format:
					words += "…" // a macro
				}
			}
			words = regexp.MustCompile(`%[-+#0-9.*]*[zjlh]*[a-zA-Z]`).ReplaceAllString(words, "…")
			words = strings.NewReplacer(`\"`, `"`, `\n`, "").Replace(words)
			if problem, do, hinted := strings.Cut(strings.TrimPrefix(words, "gresnet: "), "; hint: "); hinted {
				all = append(all, said{problem, do})
			}
		}
	}
	if len(all) < 10 {
		t.Errorf("%d hints of the plugin", len(all))
	}
	slices.SortFunc(all, func(a, b said) int { return cmp.Or(strings.Compare(a.problem, b.problem), strings.Compare(a.do, b.do)) })
	return slices.Compact(all)
}

// cell is a text in a table; or what there is in its place: an error that comes from
// elsewhere, and the hint of a line of the configuration that has none of its own.
func cell(text, without string) string {
	return strings.ReplaceAll(cmp.Or(text, without), "|", `\|`)
}

// rowsOf is what a search finds in the functions of folders, each once.
func rowsOf(t *testing.T, dirs []string, find func(*ast.FuncDecl) []said) []said {
	t.Helper()
	var all []said
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				if f, is := d.(*ast.FuncDecl); is && f.Body != nil {
					all = append(all, find(f)...)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range all {
		for begins, problem := range elsewhere {
			if !letter.MatchString(r.problem) && strings.HasPrefix(r.do, begins) {
				all[i].problem = problem
			}
		}
	}
	// A line that passes on both says nothing here.
	all = slices.DeleteFunc(all, func(r said) bool { return !letter.MatchString(r.problem) && !letter.MatchString(r.do) })
	for _, r := range all {
		if !letter.MatchString(r.problem) {
			t.Errorf("no words for the error of the hint %q", r.do)
		}
	}
	slices.SortFunc(all, func(a, b said) int { return cmp.Or(strings.Compare(a.problem, b.problem), strings.Compare(a.do, b.do)) })
	return slices.Compact(all)
}

// hints are the calls of hint.With in a function. What it is called with may have
// been made before: the last error above it is meant.
func hints(f *ast.FuncDecl) (all []said) {
	last := ""
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		switch name(call.Fun) {
		case "Errorf", "New":
			if len(call.Args) > 0 {
				last = words(f, call.Args[0])
			}
		case "With":
			if len(call.Args) != 2 {
				return true
			}
			problem := last
			if inner, is := call.Args[0].(*ast.CallExpr); is && len(inner.Args) > 0 {
				problem = words(f, inner.Args[0])
			}
			all = append(all, said{problem, words(f, call.Args[1])})
		}
		return true
	})
	return all
}

// methods are the calls of methods that take a key, what to do, and a format.
func methods(names ...string) func(*ast.FuncDecl) []said {
	return func(f *ast.FuncDecl) []said { return calls(f, names, true) }
}

// functions are those of functions that do.
func functions(names ...string) func(*ast.FuncDecl) []said {
	return func(f *ast.FuncDecl) []said { return calls(f, names, false) }
}

func calls(f *ast.FuncDecl, names []string, method bool) (all []said) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is || len(call.Args) < 3 || !slices.Contains(names, name(call.Fun)) {
			return true
		}
		if _, is := call.Fun.(*ast.SelectorExpr); is != method {
			return true
		}
		about := words(f, call.Args[0]) + ": "
		all = append(all, said{about + words(f, call.Args[2]), words(f, call.Args[1])})
		return true
	})
	return all
}

func name(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		return fun.Sel.Name
	}
	return ""
}

var letter = regexp.MustCompile(`[a-z]`)

var verb = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)

// words is the text of an expression in a function, with … for what is not known here.
func words(f *ast.FuncDecl, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return "…"
		}
		return verb.ReplaceAllString(text, "…")
	case *ast.BinaryExpr:
		return words(f, e.X) + words(f, e.Y)
	case *ast.CallExpr:
		if len(e.Args) > 0 && name(e.Fun) == "Sprintf" {
			return words(f, e.Args[0])
		}
	case *ast.Ident:
		if value := valueOf(f, e.Name); value != nil {
			return words(f, value)
		}
	}
	return "…"
}

// valueOf is a name's value, where a function gives it one.
func valueOf(f *ast.FuncDecl, name string) (value ast.Expr) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if len(n.Values) == 1 && n.Names[0].Name == name {
				value = n.Values[0]
			}
		case *ast.AssignStmt:
			if id, is := n.Lhs[0].(*ast.Ident); is && len(n.Lhs) == 1 && id.Name == name && n.Tok == token.DEFINE {
				value = n.Rhs[0]
			}
		}
		return true
	})
	return value
}
