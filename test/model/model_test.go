package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// functions returns those of a package, methods with their receiver's type: Node.Take.
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

func TestTheModelsStandForFunctionsThatAreThere(t *testing.T) {
	packages := map[string]map[string]bool{}
	for model, least := range map[string]int{"lease.pml": 40, "slots.pml": 15} {
		text, err := os.ReadFile(model)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile(`(?m)^\s*(?:/\*| \*)? ?func: (\S+) (\S+)`).FindAllStringSubmatch(string(text), -1)
		if len(named) < least || len(named) != strings.Count(string(text), "func: ") {
			t.Fatalf("%s names %d functions, of %d lines that do", model, len(named), strings.Count(string(text), "func: "))
		}
		for _, n := range named {
			if packages[n[1]] == nil {
				packages[n[1]] = functions(t, n[1])
			}
			if !packages[n[1]][n[2]] {
				t.Errorf("%s has no %s, for which a step of %s stands: see what became of it, and whether the model is still true", n[1], n[2], model)
			}
		}
	}
}

func TestEachMutationAndEachConfigurationHasARowInTheReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		text, err := os.ReadFile(r.model + ".pml")
		if err != nil {
			t.Fatal(err)
		}
		if r.mutation && (!strings.Contains(string(readme), "\n| `"+r.name+"`: ") || !strings.Contains(string(text), "WITHOUT_"+r.name)) {
			t.Errorf("%s and README.md say nothing of the mutation %s", r.model, r.name)
		}
		if !r.mutation && !strings.Contains(string(readme), "| `"+r.name+"` |") {
			t.Errorf("README.md says nothing of the configuration %s", r.name)
		}
	}
	all := regexp.MustCompile(`WITHOUT_([A-Z_]+)`)
	for _, model := range []string{"lease", "slots"} {
		text, _ := os.ReadFile(model + ".pml")
		for _, m := range all.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "_" && !slices.ContainsFunc(runs, func(r run) bool { return r.name == m[1] && r.model == model }) {
				t.Errorf("nobody runs the mutation %s", m[1])
			}
		}
	}
}

// The smallest configuration and one mutation: `make model` runs all.
func TestSpinFindsNoFaultAndOneWithoutAnInvariant(t *testing.T) {
	if out, err := exec.Command("../need", "spin", "gcc", "libc6-dev").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range []run{{name: "smoke", model: "lease"}, without("lease", "ENTRY_BEFORE_STEP", "OTHERS=0")} {
		found, err := r.check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if verdict, right := found.verdict(r); !right || found.states == 0 {
			t.Errorf("%s, %d states: %s\n%s", r.name, found.states, verdict, strings.Join(found.trace, "\n"))
		}
	}
}
