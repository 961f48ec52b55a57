package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gresnet/test/guest/vm"
)

// slow are the tests that run natively and call netnstest.Slow first, by their package's folder. `make test` leaves them
// to what CI runs after it.
type slow map[string][]string

// findSlow reads the tests below a folder from their source.
func findSlow(root string) (slow, error) {
	all := slow{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && vm.Begins(f, "netnstest.Slow") {
				all["./"+folder] = append(all["./"+folder], f.Name.Name)
			}
		}
		return err
	})
	return all, err
}

// split tells tests that have a word in their names from others.
func (s slow) split(word string) (with, without slow) {
	with, without = slow{}, slow{}
	for folder, names := range s {
		for _, name := range names {
			part := without
			if strings.Contains(name, word) {
				part = with
			}
			part[folder] = append(part[folder], name)
		}
	}
	return with, without
}

// arguments returns those of go test that mean these tests alone.
func (s slow) arguments() []string {
	return append([]string{"-p", "1", "-run", s.pattern()}, slices.Sorted(maps.Keys(s))...)
}

// pattern returns the expression that means all of them. A name says what its test proves, so no two have the same.
func (s slow) pattern() string {
	names := slices.Concat(slices.Collect(maps.Values(s))...)
	slices.Sort(names)
	return "^(" + strings.Join(names, "|") + ")$"
}

// count says how many they are.
func (s slow) count() (n int) {
	for _, names := range s {
		n += len(names)
	}
	return n
}
