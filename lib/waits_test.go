package lib_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// timers are what package time has to wait with.
var timers = []string{"Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// units are what package time has to write durations with.
var units = []string{"Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}

// ownDurations have durations that are no bounds of waits.
var ownDurations = map[string]string{
	"gresnet/lib/base/config": "what a site may set, and what holds if it sets nothing",
}

// Whoever waits by hand has a pace of its own, and forgets the end of the run; and whoever has a bound of
// its own has another one than the others who wait for the same.
func TestNobodyWaitsButPackagePollAndItsTableHasAllBounds(t *testing.T) {
	const poll = "gresnet/lib/base/poll"
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, "gresnet/lib/") {
			continue
		}
		for _, name := range p.GoFiles {
			files := token.NewFileSet()
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			say := func(at ast.Node, what string) {
				t.Errorf("%s/%s:%d: %s", p.ImportPath, name, files.Position(at.Pos()).Line, what)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if is(n, timers) && p.ImportPath != poll {
					say(n, "it waits by hand: package poll is the one way to wait")
				}
				if isDuration(n) && p.ImportPath != poll && ownDurations[p.ImportPath] == "" {
					say(n, "a duration of its own: the table of package poll has all bounds, with reasons")
				}
				return true
			})
		}
	}
}

// is tells a selector of package time.
func is(n ast.Node, names []string) bool {
	s, selects := n.(*ast.SelectorExpr)
	if !selects {
		return false
	}
	x, named := s.X.(*ast.Ident)
	return named && x.Name == "time" && slices.Contains(names, s.Sel.Name)
}

// isDuration tells a duration that is written down: 5 * time.Second, or a constant or variable that is one
// unit.
func isDuration(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		l, left := n.X.(*ast.BasicLit)
		r, right := n.Y.(*ast.BasicLit)
		number := left && l.Kind == token.INT && is(n.Y, units) || right && r.Kind == token.INT && is(n.X, units)
		return n.Op == token.MUL && number
	case *ast.ValueSpec:
		return slices.ContainsFunc(n.Values, func(v ast.Expr) bool { return is(v, units) })
	}
	return false
}
