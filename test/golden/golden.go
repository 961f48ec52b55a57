// Package golden holds what a program prints against a file in testdata. It is
// for tests only; go test -update writes the files.
package golden

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"gresnet/test/netnstest"
)

var update = flag.Bool("update", false, "write what is printed now into testdata")

// Check compares a text with testdata/NAME.
func Check(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := netnstest.Diff(string(want), got); diff != "" {
		t.Errorf("%s: what is there (-) and what was printed (+):\n%s", file, diff)
	}
}

// Printed returns what is printed.
func Printed(t *testing.T, print func(io.Writer) error) string {
	t.Helper()
	var out strings.Builder
	if err := print(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Fits wants each line of a text to fit a terminal of 80 columns, in words alone.
func Fits(t *testing.T, text string) {
	t.Helper()
	const columns = 80
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("it has an escape sequence")
	}
}
