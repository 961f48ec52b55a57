// Package model holds the model of the protocol, lease.pml, to the programs.
package model

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// functions are those of a package, methods with their receiver's type: Node.Take.
func functions(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../" + folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				found[receiver(f)+f.Name.Name] = true
			}
		}
	}
	return found
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if pointer, is := kind.(*ast.StarExpr); is {
		kind = pointer.X
	}
	return kind.(*ast.Ident).Name + "."
}

func TestTheModelStandsForFunctionsThatAreThere(t *testing.T) {
	text, err := os.ReadFile("lease.pml")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`(?m)^\s*(?:/\*| \*)? ?func: (\S+) (\S+)`).FindAllStringSubmatch(string(text), -1)
	if len(named) < 20 || len(named) != strings.Count(string(text), "func: ") {
		t.Fatalf("the model names %d functions, of %d lines that do", len(named), strings.Count(string(text), "func: "))
	}
	packages := map[string]map[string]bool{}
	for _, n := range named {
		if packages[n[1]] == nil {
			packages[n[1]] = functions(t, n[1])
		}
		if !packages[n[1]][n[2]] {
			t.Errorf("%s has no %s, which the model stands for: see what became of it, and whether the model is still true", n[1], n[2])
		}
	}
}
