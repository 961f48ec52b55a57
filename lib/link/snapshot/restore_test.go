package snapshot_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gresnet/test/golden"
)

// A row of testdata/restore.txt names the test that holds it, and each test of a table has a row.
// docs/restore.md has the rows without their tests.
func TestTheTableOfWhatIsRestoredNamesItsTests(t *testing.T) {
	var tests []string
	for _, file := range []string{"settings_test.go", "refuse_test.go", "managed_test.go", "carrier_test.go", "others_test.go", "duplicate_test.go", "driver_test.go", "../tc/dcb_test.go", "counted_test.go"} {
		source := read(t, file)
		for _, m := range regexp.MustCompile("(?m)^\t\t\\{\"([^\"]+)\", |^func (Test\\w+)").FindAllStringSubmatch(source, -1) {
			tests = append(tests, m[1]+m[2])
		}
	}
	var named []string
	var page strings.Builder
	for line := range strings.Lines(read(t, "testdata/restore.txt")) {
		if strings.HasPrefix(line, "%") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(cells) != 6 {
			page.WriteString(line)
			continue
		}
		page.WriteString(forPeople(cells[1:4]))
		if strings.HasPrefix(line, "| ---") || strings.HasPrefix(line, "| attribute") {
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
	golden.Check(t, "../../../../docs/restore.md", page.String())
}

// forPeople returns a row of docs/restore.md, or nothing for one that only names another test.
func forPeople(cells []string) string {
	row := "|"
	for _, c := range cells {
		row += strings.TrimRight(" "+strings.TrimSpace(c), " ") + " |"
	}
	if row == "| | | |" {
		return ""
	}
	return row + "\n"
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
