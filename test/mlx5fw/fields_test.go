package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEachFieldThatTheSourcesNameIsInTheTable: a command would else be a fault of its device.
func TestEachFieldThatTheSourcesNameIsInTheTable(t *testing.T) {
	begins := map[string]bool{}
	for path := range fields {
		first, _, _ := strings.Cut(path, ".")
		begins[first] = true
	}
	names, used := regexp.MustCompile(`"([a-z0-9_]+)(\.[a-zA-Z0-9_]+)+"`), map[string]bool{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file == "fields.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range names.FindAllStringSubmatch(string(text), -1) {
			path := strings.Trim(match[0], `"`)
			if _, ok := fields[path]; begins[match[1]] && !ok {
				t.Errorf("%s: fields.go lacks %s", file, path)
			}
			used[path] = true
		}
	}
	for path := range fields {
		if !used[path] {
			t.Errorf("no source names %s", path)
		}
	}
}
