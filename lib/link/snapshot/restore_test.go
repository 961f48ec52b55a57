package snapshot_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A row of docs/restore.md names the test that holds it, and each test of a table has a row.
func TestTheTableOfWhatIsRestoredNamesItsTests(t *testing.T) {
	var tests []string
	for _, file := range []string{"settings_test.go", "refuse_test.go", "managed_test.go", "carrier_test.go", "others_test.go", "duplicate_test.go", "driver_test.go", "../tc/qdisc_test.go", "../dcb/dcb_test.go", "../tc/mirror_test.go", "made_test.go", "counted_test.go"} {
		source := read(t, file)
		for _, m := range regexp.MustCompile("(?m)^\t\t\\{\"([^\"]+)\", |^func (Test\\w+)").FindAllStringSubmatch(source, -1) {
			tests = append(tests, m[1]+m[2])
		}
	}
	var named []string
	for _, line := range strings.Split(read(t, "../../../docs/restore.md"), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| attribute") {
			continue
		}
		test := strings.TrimSpace(cells[4])
		named = append(named, test)
		if test == "none" || strings.HasPrefix(test, "none: ") {
			continue
		}
		if !slices.Contains(tests, test) {
			t.Errorf("no test %q, which a row names:\n%s", test, line)
		}
	}
	for _, name := range tests {
		if !strings.HasPrefix(name, "Test") && !slices.Contains(named, name) {
			t.Errorf("test %q has no row", name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
