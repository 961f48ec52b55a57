package vm

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// Test is a test in one of the folders of test/guest.
type Test struct {
	Shard string // the folder's name
	Name  string
	Class Class
}

// Tests reads the tests of all folders below dir, which is test/guest, from their source.
// A test whose first statement does not declare a class is an error that names it.
func Tests(dir string) (all []Test, err error) {
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, folder := range folders {
		if !folder.IsDir() || folder.Name() == "vm" {
			continue
		}
		tests, err := testsOf(filepath.Join(dir, folder.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, tests...)
	}
	return all, nil
}

func testsOf(folder string) (all []Test, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !isTest(f) {
				continue
			}
			class, err := declared(f)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", path, f.Name.Name, err)
			}
			all = append(all, Test{filepath.Base(folder), f.Name.Name, class})
		}
	}
	return all, nil
}

// isTest tells whether `go test` runs the function.
func isTest(f *ast.FuncDecl) bool {
	return f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain"
}

// declared returns the class in a test's first statement.
func declared(f *ast.FuncDecl) (class Class, err error) {
	call := firstCall(f)
	if call == nil || text(call.Fun) != "vm.Needs" || len(call.Args) == 0 {
		return 0, fmt.Errorf("it declares no class. Hint: vm.Needs(t, …) is its first statement")
	}
	for _, argument := range call.Args[1:] {
		name := strings.TrimPrefix(text(argument), "vm.")
		part, ok := classNames[name]
		if !ok {
			return 0, fmt.Errorf("it declares an unknown class %s", name)
		}
		class |= part
	}
	return class, class.check()
}

// Begins tells whether a function is a test whose first statement calls PACKAGE.NAME.
func Begins(f *ast.FuncDecl, name string) bool {
	call := firstCall(f)
	return isTest(f) && call != nil && text(call.Fun) == name
}

func firstCall(f *ast.FuncDecl) *ast.CallExpr {
	if len(f.Body.List) == 0 {
		return nil
	}
	statement, ok := f.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return nil
	}
	call, _ := statement.X.(*ast.CallExpr)
	return call
}

// text returns an expression of the form PACKAGE.NAME, or "".
func text(e ast.Expr) string {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if x, ok := selector.X.(*ast.Ident); ok {
		return x.Name + "." + selector.Sel.Name
	}
	return ""
}
