package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gresnet/lib/admin/trial"
	"gresnet/lib/hca/report"
	"gresnet/test/golden"
)

const hardware = "../../../docs/hardware.md"

// seenBy returns a table's rows of what reports have seen, one for each kind of HCA in a report.
func seenBy(name string, t report.Trial) (rows []string) {
	kinds := map[string][]report.Tried{}
	for _, h := range t.HCAs {
		kind := strings.Join([]string{cell(h.Driver), cell(h.Card), cell(h.Firmware)}, " | ")
		kinds[kind] = append(kinds[kind], h)
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		hcas := kinds[kind]
		verdicts, links, rounds, kills, in, out := map[string]int{}, map[string]bool{}, 0, 0, 0.0, 0.0
		for _, h := range hcas {
			verdicts[h.Verdict]++
			for _, l := range h.Links {
				links[l] = true
			}
			rounds, kills, in, out = rounds+h.Rounds, kills+h.Kills, max(in, h.In), max(out, h.Out)
		}
		var seen []string
		for _, v := range slices.Sorted(maps.Keys(verdicts)) {
			seen = append(seen, fmt.Sprintf("%d %s", verdicts[v], v))
		}
		seen = append(seen, slices.Sorted(maps.Keys(links))...)
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s; rounds %d, kills %d; in %.2f s, out %.2f s ([report](hardware/%s)) |\n",
			kind, t.Kernel, cell(t.Slurm), t.Mode, strings.Join(seen, ", "), rounds, kills, in, out, name))
	}
	return rows
}

func cell(text string) string {
	if text == "" {
		return "-"
	}
	return strings.ReplaceAll(text, "|", "/")
}

func TestTheTableOfHardwareIsMadeOfTheReportsInTheTree(t *testing.T) {
	files, err := filepath.Glob("../../../docs/hardware/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no reports: %v", err)
	}
	table := "| driver | card | firmware | kernel | Slurm | mode | seen |\n| --- | --- | --- | --- | --- | --- | --- |\n"
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var found report.Trial
		strict := json.NewDecoder(bytes.NewReader(text))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&found); err != nil || len(found.HCAs) == 0 {
			t.Errorf("%s is no report of gresnet try: %v", file, err)
			continue
		}
		var again bytes.Buffer
		if err := report.Print(&again, trial.Redacted(found, "")); err != nil {
			t.Fatal(err)
		}
		if again.String() != string(text) {
			t.Errorf("%s is not as gresnet try writes it, or has an address or a serial number:\n%s", file, again.String())
		}
		table += strings.Join(seenBy(filepath.Base(file), found), "")
	}
	page, err := os.ReadFile(hardware)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- reports: go test ./lib/hca/report -update -->\n", "<!-- reports end -->\n"
	before, rest, is := strings.Cut(string(page), begin)
	_, after, ends := strings.Cut(rest, end)
	if !is || !ends {
		t.Fatalf("%s has no place for the table", hardware)
	}
	golden.Check(t, "../"+hardware, before+begin+table+end+after)
}
