package hint_test

import (
	"cmp"
	"flag"
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

	"gresnet/lib/base/hint"
	"gresnet/test/golden"
)

// source is the programs' source.
type source struct {
	set    *token.FileSet
	files  map[string]*ast.File
	values map[string]map[string]ast.Expr // of the constants and variables of each package, by its folder
	warned map[string]bool                // the kinds of events that warn, by their name in package event
}

// read reads folders.
func read(t *testing.T, dirs ...string) *source {
	t.Helper()
	s := &source{token.NewFileSet(), map[string]*ast.File{}, map[string]map[string]ast.Expr{}, map[string]bool{}}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			s.files[path], err = parser.ParseFile(s.set, path, nil, 0)
			if err == nil {
				s.remember(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// remember keeps a file's values, and its kinds of events.
func (s *source) remember(path string) {
	dir := filepath.Dir(path)
	if s.values[dir] == nil {
		s.values[dir] = map[string]ast.Expr{}
	}
	for _, d := range s.files[path].Decls {
		if g, is := d.(*ast.GenDecl); is {
			for _, spec := range g.Specs {
				if v, is := spec.(*ast.ValueSpec); is && len(v.Values) == 1 {
					s.values[dir][v.Names[0].Name] = v.Values[0]
				}
			}
		}
	}
	ast.Inspect(s.files[path], func(n ast.Node) bool {
		if c, is := n.(*ast.CompositeLit); is {
			if kind, warns := warning(c); warns {
				s.warned[kind] = true
			}
		}
		return true
	})
}

// warning returns the kind of an event that is made with a warning.
func warning(c *ast.CompositeLit) (kind string, warns bool) {
	for _, e := range c.Elts {
		pair, is := e.(*ast.KeyValueExpr)
		if !is {
			continue
		}
		switch key, _ := pair.Key.(*ast.Ident); {
		case key == nil:
		case key.Name == "Kind":
			kind = name(pair.Value)
		case key.Name == "Warning":
			warns = true
		}
	}
	return kind, warns
}

// function is one of the source, with its folder.
type function struct {
	*ast.FuncDecl
	dir string
}

// functions calls f for each function below a folder.
func (s *source) functions(below string, f func(function)) {
	for path, file := range s.files {
		if dir := filepath.Dir(path); below == "../../.." || dir == below || strings.HasPrefix(dir, below+"/") {
			for _, d := range file.Decls {
				if decl, is := d.(*ast.FuncDecl); is && decl.Body != nil {
					f(function{decl, dir})
				}
			}
		}
	}
}

// rows returns what a search finds in the functions below a folder, each once.
func (s *source) rows(t *testing.T, below string, find func(*source, function) []said) []said {
	t.Helper()
	var all []said
	s.functions(below, func(f function) { all = append(all, find(s, f)...) })
	for i, r := range all {
		_, do := hint.Cut(r.do)
		for begins, problem := range elsewhere {
			if !letter.MatchString(r.problem) && strings.HasPrefix(do, begins) {
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

// hints returns the calls of hint.With in a function. What it is called with may have
// been made before: the last error above it is meant.
func hints(s *source, f function) (all []said) {
	last := ""
	has := map[ast.Expr]bool{} // errors that have a hint of their own
	f.calls(func(call *ast.CallExpr) {
		switch name(call.Fun) {
		case "Errorf", "New":
			if len(call.Args) > 0 && !has[call] {
				last = s.words(f, call.Args[0])
			}
		case "With":
			if len(call.Args) != 2 {
				return
			}
			problem := last
			if inner, is := call.Args[0].(*ast.CallExpr); is && len(inner.Args) > 0 {
				has[inner] = true
				problem = s.words(f, inner.Args[0])
			}
			all = append(all, said{problem, s.words(f, call.Args[1])})
		}
	})
	return all
}

// faults returns what package config finds wrong with a key of a table.
func faults(s *source, f function) (all []said) {
	f.calls(func(call *ast.CallExpr) {
		_, method := call.Fun.(*ast.SelectorExpr)
		switch {
		case name(call.Fun) == "Fail" && method && len(call.Args) >= 3:
			about := s.words(f, call.Args[0]) + ": "
			all = append(all, said{about + s.words(f, call.Args[2]), cmp.Or(s.words(f, call.Args[1]), noHint)})
		case name(call.Fun) == "fault" && len(call.Args) == 2:
			all = append(all, said{s.words(f, call.Args[0]), cmp.Or(s.words(f, call.Args[1]), noHint)})
		}
	})
	return all
}

// noHint is what lineError says where nobody says more.
const noHint = "GN008 correct line … of …"

// findings returns what package check says, but what is ok.
func findings(s *source, f function) (all []said) {
	f.calls(func(call *ast.CallExpr) {
		_, is := call.Fun.(*ast.Ident)
		if n := name(call.Fun); is && (n == "fail" || n == "warn") && len(call.Args) >= 3 {
			about := s.words(f, call.Args[0]) + ": "
			all = append(all, said{about + s.words(f, call.Args[2]), s.words(f, call.Args[1])})
		}
	})
	return all
}

// leavings returns what package setup does not do itself.
func leavings(s *source, f function) (all []said) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name(n.Fun) == "refuse" && len(n.Args) == 2 {
				all = append(all, said{s.words(f, n.Args[0]), s.words(f, n.Args[1])})
			}
		case *ast.CompositeLit:
			if name(n.Type) == "Refusal" && len(n.Elts) == 2 {
				all = append(all, said{s.words(f, n.Elts[0]), s.words(f, n.Elts[1])})
			}
		}
		return true
	})
	for i := range all {
		if !letter.MatchString(all[i].problem) {
			all[i].problem = "the file cannot be read or taken apart: …"
		}
	}
	return slices.DeleteFunc(all, func(r said) bool { return !letter.MatchString(r.do) })
}

// refusals returns what makes a gres.Refusal.
func refusals(s *source, f function) (all []said) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if name(n.Type) == "Refusal" {
				if r := s.refusal(f, n); r.problem != "" {
					all = append(all, r)
				}
			}
		case *ast.AssignStmt:
			if len(n.Lhs) == 1 && field(n.Lhs[0]) == "Do" && len(all) > 0 { // of the one above
				all[len(all)-1].do = s.words(f, n.Rhs[0])
			}
		case *ast.CallExpr:
			const format = 2
			if name(n.Fun) == "refuse" && len(n.Args) > format {
				all = append(all, said{"…, which source … says the job has: " + s.words(f, n.Args[format]), usual})
			}
			if name(n.Fun) == "refusal" && len(n.Args) > 0 {
				all = append(all, said{"overlay: " + s.words(f, n.Args[0]), s.overlays()})
			}
		}
		return true
	})
	return all
}

// usual is what a Refusal says where nobody says more.
const usual = "GN009 ask for a GRES that this node has, or have gresnet.toml and gres.conf say the same"

// overlays returns what refusals of package overlay say.
func (s *source) overlays() (do string) {
	s.functions("../../../lib/overlay", func(f function) {
		if f.Name.Name == "refusal" {
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if pair, is := n.(*ast.KeyValueExpr); is && name(pair.Key) == "Do" {
					do = s.words(f, pair.Value)
				}
				return true
			})
		}
	})
	return do
}

func (s *source) refusal(f function, c *ast.CompositeLit) said {
	values := map[string]string{"Do": usual}
	for _, e := range c.Elts {
		if pair, is := e.(*ast.KeyValueExpr); is {
			values[name(pair.Key)] = s.words(f, pair.Value)
		}
	}
	if values["Why"] == "" || !letter.MatchString(values["Why"]) {
		return said{}
	}
	return said{values["Ask"] + ": " + values["Why"], values["Do"]}
}

func (f function) calls(with func(*ast.CallExpr)) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is {
			with(call)
		}
		return true
	})
}

// field returns the field of a value that is assigned to.
func field(e ast.Expr) string {
	if s, is := e.(*ast.SelectorExpr); is {
		return s.Sel.Name
	}
	return ""
}

func name(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

var letter = regexp.MustCompile(`[a-z]`)

var verb = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)

// words returns the text of an expression in a function, with … for what is not known here.
func (s *source) words(f function, e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return "…"
		}
		return verb.ReplaceAllString(text, "…")
	case *ast.BinaryExpr:
		return s.words(f, e.X) + s.words(f, e.Y)
	case *ast.CallExpr:
		switch name(e.Fun) {
		case "Sprintf":
			return s.words(f, e.Args[0])
		case "Or": // what another error says, or this
			return s.words(f, e.Args[len(e.Args)-1])
		}
	case *ast.Ident:
		if value := f.value(e.Name); value != nil {
			return s.words(f, value)
		}
		if value := s.values[f.dir][e.Name]; value != nil {
			return s.words(f, value)
		}
	}
	return "…"
}

// value returns a name's value, where a function gives it one.
func (f function) value(name string) (value ast.Expr) {
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

// anchors returns the texts that what to do may begin with.
func (s *source) anchors(f function, e ast.Expr) (all []*ast.BasicLit) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING && len(e.Value) > 2 {
			all = append(all, e)
		}
	case *ast.BinaryExpr:
		return s.anchors(f, e.X)
	case *ast.CallExpr:
		if n := name(e.Fun); n == "Sprintf" || n == "Or" {
			for _, a := range e.Args[:map[string]int{"Sprintf": 1, "Or": len(e.Args)}[n]] {
				all = append(all, s.anchors(f, a)...)
			}
		}
	case *ast.Ident:
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				if len(n.Values) == 1 && n.Names[0].Name == e.Name {
					all = append(all, s.anchors(f, n.Values[0])...)
				}
			case *ast.AssignStmt:
				for i, l := range n.Lhs {
					if id, is := l.(*ast.Ident); is && id.Name == e.Name && len(n.Lhs) == len(n.Rhs) {
						all = append(all, s.anchors(f, n.Rhs[i])...)
					}
				}
			}
			return true
		})
		if value := s.values[f.dir][e.Name]; value != nil && len(all) == 0 {
			return s.anchors(f, value)
		}
	}
	return all
}

// does are the expressions that say what to do, of all functions.
func (s *source) does(with func(function, ast.Expr)) {
	s.functions("../../..", func(f function) {
		f.calls(func(call *ast.CallExpr) {
			_, method := call.Fun.(*ast.SelectorExpr)
			switch n := name(call.Fun); {
			case n == "With" && method && len(call.Args) == 2, n == "fault" && len(call.Args) == 2:
				with(f, call.Args[1])
			case n == "refuse" && method && len(call.Args) == 2:
				with(f, call.Args[1])
			case n == "bad" && len(call.Args) == 4:
				with(f, call.Args[2])
			case (n == "Fail" || n == "fail" || n == "warn") && len(call.Args) >= 3, n == "note" && len(call.Args) == 3:
				with(f, call.Args[1])
			}
		})
		ast.Inspect(f.Body, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if name(n.Key) == "Do" {
					with(f, n.Value)
				}
			case *ast.AssignStmt:
				if len(n.Lhs) == 1 && field(n.Lhs[0]) == "Do" {
					with(f, n.Rhs[0])
				}
			case *ast.CompositeLit:
				if name(n.Type) == "Refusal" && len(n.Elts) == 2 { // of package setup
					with(f, n.Elts[1])
				}
			}
			return true
		})
	})
}

// number gives each message that has none an id, if the test is to update what it makes; else it
// says which have none.
func (s *source) number(t *testing.T) {
	t.Helper()
	at := map[token.Pos]bool{}
	s.does(func(f function, e ast.Expr) {
		for _, literal := range s.anchors(f, e) {
			if id, _ := hint.Cut(literal.Value[1:]); id == "" {
				at[literal.Pos()] = true
			}
		}
	})
	var places []token.Pos
	for pos := range at {
		places = append(places, pos)
	}
	slices.SortFunc(places, func(a, b token.Pos) int {
		x, y := s.set.Position(a), s.set.Position(b)
		return cmp.Or(strings.Compare(x.Filename, y.Filename), x.Offset-y.Offset)
	})
	next := 0
	for id := range everUsed(t, s) {
		n, _ := strconv.Atoi(id[2:])
		next = max(next, n)
	}
	// From the end of a file on, so that places before hold.
	for i, pos := range slices.Backward(places) {
		p := s.set.Position(pos)
		if !flag.Lookup("update").Value.(flag.Getter).Get().(bool) {
			t.Errorf("%s: it has no id: go test ./lib/base/hint -update gives it one", p)
			continue
		}
		text, err := os.ReadFile(p.Filename)
		if err != nil {
			t.Fatal(err)
		}
		after := p.Offset + 1
		text = slices.Concat(text[:after], fmt.Appendf(nil, "GN%03d ", next+1+i), text[after:])
		if err := os.WriteFile(p.Filename, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(places) > 0 {
		*s = *read(t, "../../../lib", "../../../prolog", "../../../prolog/gresnet", "../../../epilog")
	}
	s.list(t)
}

// used returns the ids that messages have now, with what to do. Each is at one place.
func (s *source) used(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(id, do, where string) {
		if _, is := all[id]; is {
			t.Errorf("%s: %s is another message's, too", where, id)
		}
		all[id] = verb.ReplaceAllString(do, "…")
	}
	for _, file := range s.files {
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING && len(literal.Value) > 2 {
				if id, do := hint.Cut(literal.Value[1 : len(literal.Value)-1]); id != "" {
					add(id, do, s.set.Position(literal.Pos()).String())
				}
			}
			return true
		})
	}
	files, err := filepath.Glob("../../../spank/*.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:hint: )?([^"\n]*) ?\[(GN\d{3})\]`).FindAllStringSubmatch(string(text), -1) {
			do := strings.TrimSpace(m[1])
			if _, after, hinted := strings.Cut(do, "hint: "); hinted {
				do = after
			}
			add(m[2], do, file)
		}
	}
	return all
}

const idsFile = "ids.txt"

// known returns all ids that any message ever had.
func known(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", idsFile))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, id := range strings.Fields(string(text)) {
		all[id] = true
	}
	return all
}

// everUsed returns the ids that messages have or had.
func everUsed(t *testing.T, s *source) map[string]bool {
	t.Helper()
	all := known(t)
	for id := range s.used(t) {
		all[id] = true
	}
	return all
}

// list holds testdata/ids.txt, which ids are only added to, against the source.
func (s *source) list(t *testing.T) {
	t.Helper()
	ids := slices.Sorted(maps.Keys(everUsed(t, s)))
	golden.Check(t, idsFile, strings.Join(ids, "\n")+"\n")
}
