package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"gresnet/test/netnstest"
)

func TestTheDocumentsHaveTheFiguresOfTheRunsThatAreCommitted(t *testing.T) {
	const root = "../../"
	for _, d := range documents() {
		text, err := os.ReadFile(root + d.document)
		if err != nil {
			t.Fatal(err)
		}
		_, got, _, err := figures(string(text), d.kind)
		if err != nil {
			t.Fatalf("%s: %v", d.document, err)
		}
		r, err := readResults(root + "docs/" + d.run)
		if err != nil {
			t.Fatal(err)
		}
		if want := d.table(r); got != want {
			t.Errorf("%s has\n%s\nthe run has\n%s", d.document, got, want)
		}
	}
	svg, err := os.ReadFile(root + "docs/speed.svg")
	if err != nil {
		t.Fatal(err)
	}
	r, err := readResults(root + "docs/speed.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(svg) != r.plot() {
		t.Error("docs/speed.svg is of another run than docs/speed.json")
	}
}

func TestTheFiguresAreNotOlderThanTheReleaseBeforeTheLast(t *testing.T) {
	text, err := os.ReadFile("../../docs/speed.md")
	if err != nil {
		t.Fatal(err)
	}
	commit := regexp.MustCompile(`of commit ([0-9a-f]{8})\b`).FindSubmatch(text)
	if commit == nil {
		t.Fatal("docs/speed.md does not say which commit its figures are of")
	}
	releases, err := exec.Command("git", "tag", "--list", "v*", "--contains", string(commit[1])).Output()
	if err != nil {
		netnstest.Skip(t, "needs the history with commit "+string(commit[1])+": docs/speed.md has its figures")
	}
	if list := strings.Fields(string(releases)); len(list) > 1 {
		t.Errorf("the figures are older than %s: make bench, and publish them", list)
	}
}

func TestAGoalThatIsNotReachedIsBold(t *testing.T) {
	r := results{Cases: []measured{
		{testCase: testCase{Name: "0 HCAs"}, Samples: samples{"floor in": {10}, "floor out": {10}, "gresnet in": {12}, "gresnet out": {16}}},
		{testCase: testCase{Name: "1 HCA"}, Samples: samples{"floor in": {100}, "floor out": {100}, "floor udev": {20}, "gresnet in": {130}, "gresnet out": {180}}},
		{testCase: testCase{Name: "8 HCAs"}, Samples: samples{
			"floor in": {400}, "floor out": {400}, "floor udev": {400}, "gresnet in": {440}, "gresnet out": {800}, "script in": {2000}, "script out": {1600},
		}},
		{testCase: testCase{Name: "64 HCAs"}, Samples: samples{"gresnet in": {3520}, "gresnet out": {12800}}, Peak: 20000},
	}}
	for _, want := range []string{
		"| 8 HCAs: gresnet : floor | ≤ 1.15 | 1.10 | **2.00** |\n",
		"| 8 HCAs: gresnet : floor and udev after it | ≤ 1.15 | - | 1.00 |\n",
		"| 8 HCAs: script : gresnet | ≥ 4 | 4.55 | **2.00** |\n",
		"| 8 HCAs: plain script : gresnet | ≥ 4 | - | - |\n",
		"| 1 HCA: gresnet : floor | ≤ 1.3 | 1.30 | **1.80** |\n",
		"| 1 HCA: gresnet : floor and udev after it | ≤ 1.15 | - | **1.50** |\n",
		"| no HCA: gresnet : a program that does nothing | ≤ 1.3 | 1.20 | **1.60** |\n",
		"| 64 HCAs against 8, for each | ≤ 1 | 1.00 | **2.00** |\n",
		"| most memory, MB | ≤ 20 | **20.48** | **20.48** |\n",
	} {
		if got := r.scorecard(); !strings.Contains(got, want) {
			t.Errorf("the goals lack\n%sin\n%s", want, got)
		}
	}
}

// example returns a run of two cases, the first without the script.
func example() results {
	return results{Form: "full", Kernel: "6.1", Cases: []measured{
		{testCase: testCase{Name: "0 HCAs"}, Samples: samples{
			"floor in": {9, 10, 30}, "floor out": {10, 10, 10}, "gresnet in": {15, 15, 15}, "gresnet out": {12, 12, 12},
		}},
		{testCase: testCase{Name: "8 & more"}, Samples: samples{
			"floor in": {200, 100}, "floor out": {100, 100}, "floor udev": {7, 9}, "gresnet in": {300, 150}, "gresnet out": {120, 120},
			"script in": {900}, "script out": {600}, "plain in": {1800}, "plain out": {900},
		}},
	}}
}

func TestTheTableOfPeersSaysWhatEachDoesNotRestore(t *testing.T) {
	r := results{Cases: []measured{{testCase: base(), Lost: map[string][]string{cniName: {"addresses", "routes"}}, Samples: samples{
		"gresnet in": {10}, "gresnet out": {20}, "script in": {15}, "script out": {20}, "CNI in": {100}, "CNI out": {50},
	}}}}
	want := `| script | 1.5, 1.0 | nothing |
| CNI: host-device, rdma-cni | 10.0, 2.5 | addresses, routes |
`
	if got := r.peers(); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%swanted\n%s", got, want)
	}
}

func TestTheTableHasMediansAndRatios(t *testing.T) {
	want := `| prolog, epilog | floor, ms | gresnet, ms | gresnet : floor | epilog : floor + udev |
| --- | --- | --- | --- | --- |
| 0 HCAs | 10, 10 | 15, 12 | 1.50, 1.20 | - |
| 8 & more | 150, 100 | 225, 120 | 1.50, 1.20 | 1.11 |
`
	if got := example().markdown(); got != want {
		t.Errorf("got\n%swanted\n%s", got, want)
	}
	for _, part := range []string{"8 & more                     epilog      2    100.0     120.0 (1.20)     600.0 (6.00)     900.0 (9.00)                -    8.0\n", "0 HCAs                       prolog      3     10.0      15.0 (1.50)                -                -                -\n"} {
		if got := example().table(); !strings.Contains(got, part) {
			t.Errorf("the table lacks\n%s in\n%s", part, got)
		}
	}
}

func TestThePlotHasAMarkForEachRatioThatWasMeasured(t *testing.T) {
	d, shapes, titles := xml.NewDecoder(strings.NewReader(example().plot())), map[string]int{}, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, is := token.(xml.StartElement); is {
			for _, a := range e.Attr {
				if e.Name.Local == "path" && a.Name.Local == "d" {
					shapes[a.Value]++
				}
			}
			if e.Name.Local == "title" {
				titles++
			}
		}
	}
	// One mark of each kind in the legend; the script was in one of the two cases.
	for i, m := range marks() {
		if want := []int{3, 3, 2, 2}[i]; shapes[m.path] != want {
			t.Errorf("%s: %d marks, wanted %d", m.name, shapes[m.path], want)
		}
	}
	if text := example().plot(); strings.Contains(text, "%!") || !strings.Contains(text, ">floor<") {
		t.Errorf("the scale is not as it should be:\n%s", text)
	}
	if len(shapes) != len(marks()) || titles != 1+2+4 {
		t.Errorf("%d shapes and %d titles", len(shapes), titles)
	}
}

func TestTheCurvesCompareATenthAndAllWithANodeThatHasNone(t *testing.T) {
	took := func(name string, in, out float64) measured {
		return measured{testCase: testCase{Name: name}, Samples: samples{"gresnet in": {in}, "gresnet out": {out}}}
	}
	r := results{Cases: []measured{took("1 HCA", 10, 20), took("100 routes", 11, 20), took("1000 routes", 20, 30)}}
	want := "| the node has | a tenth of them: prolog, epilog | all of them |\n| --- | --- | --- |\n| 1000 routes | 1.10, 1.00 | 2.00, 1.50 |\n"
	if got := r.curves(); got != want {
		t.Errorf("got\n%swanted\n%s", got, want)
	}
	names := map[string]bool{}
	for i, c := range load() {
		factors := 0
		for _, n := range []int{c.Interfaces, c.Routes - 1, c.Neighbors, c.Rules, c.Mounts, c.Processes} {
			if n > 0 {
				factors++
			}
		}
		if names[c.Name] || factors != min(i, 1) || c.HCAs != 1 {
			t.Errorf("%+v", c)
		}
		names[c.Name] = true
	}
}

func TestFillReplacesWhatStandsBetweenTheMarks(t *testing.T) {
	other := begin("other") + "stays\n" + end
	got, err := fill(other+"a\n"+begin("kind")+"old\n"+end+"b\n", "kind", "new\n")
	if want := other + "a\n" + begin("kind") + "new\n" + end + "b\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := fill(other, "kind", "new\n"); err == nil {
		t.Error("a text without marks was filled")
	}
}

func TestTheCasesThatTheTableLeavesOutAreMeasured(t *testing.T) {
	for _, name := range plotted {
		if place(full(), name) == len(full()) {
			t.Errorf("there is no case %q", name)
		}
	}
}

func TestEveryCaseDiffersFromTheBaseInOneFactor(t *testing.T) {
	for _, c := range append(full(), short()...) {
		b, factors := base(), 0
		if c.Jobs != b.Jobs {
			factors++ // each job has an HCA of its own
			b.HCAs = c.HCAs
		}
		if c.Train != b.Train {
			factors++ // more HCAs must not take longer
			b.HCAs = c.HCAs
		}
		for _, differs := range []bool{c.HCAs != b.HCAs, c.Mode != b.Mode, c.Kind != b.Kind, c.Routes != b.Routes, c.Interfaces != b.Interfaces} {
			if differs {
				factors++
			}
		}
		if factors > 1 || (factors == 0) != (c.Name == b.Name) || c.rounds == 0 || c.weight == 0 {
			t.Errorf("%+v", c)
		}
	}
}

func TestEachCaseIsDealtToOneOfTwoVMsWhichTakeTheSameTime(t *testing.T) {
	for _, all := range [][]testCase{full(), short()} {
		dealt, weights, longest, count := deal(all), [2]int{}, 0, 0
		for vm, list := range dealt {
			last := -1
			for _, c := range list {
				if at := place(all, c.Name); at <= last || at == len(all) {
					t.Errorf("VM %d: %s is the %d. case, after the %d.", vm+1, c.Name, at, last)
				} else {
					last = at
				}
				weights[vm] += c.weight
				longest, count = max(longest, c.weight), count+1
			}
		}
		if most, least := max(weights[0], weights[1]), min(weights[0], weights[1]); count != len(all) || most-least > longest/4+1 {
			t.Errorf("%d of %d cases are dealt, with weights %v", count, len(all), weights)
		}
	}
}

func TestWhatTwoVMsHaveMeasuredIsMergedInTheFormsOrder(t *testing.T) {
	part := func(form string, names ...string) results {
		r := results{Form: form, Kernel: "6.1"}
		for _, name := range names {
			r.Cases = append(r.Cases, measured{testCase: testCase{Name: name}, Peak: int64(len(name))})
		}
		return r
	}
	got, err := merge(part("full", "1 HCA", "64 HCAs"), part("full", "0 HCAs", "8 HCAs"))
	if want := part("full", "0 HCAs", "1 HCA", "8 HCAs", "64 HCAs"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, wanted %+v", got, err, want)
	}
	if got.peak() != int64(len("64 HCAs")) {
		t.Errorf("the peak of all is %d", got.peak())
	}
	if got, err := merge(part("full", "1 HCA"), part("short", "8 HCAs")); err == nil {
		t.Errorf("parts of two forms are %+v", got)
	}
}

func TestARoundNeedsTheTimeOfTheToolsThatAreInIt(t *testing.T) {
	tools := []tool{{name: "floor"}, {name: "gresnet"}, {name: "script", other: true}, {name: "CNI", other: true}}
	took := map[string]time.Duration{"floor": 1, "gresnet": 2, "script": 4, "CNI": 100}
	c := base()
	for round, want := range map[int]time.Duration{1: 107, 2: 7, c.others: 7, c.others + 1: 3} {
		if got := needs(tools, took, c, round); got != want {
			t.Errorf("round %d needs %d, wanted %d", round, got, want)
		}
	}
}

func TestTheCasesShareTheTimeThatThereIs(t *testing.T) {
	left := 8 * time.Minute
	cases := []testCase{{weight: 1}, {weight: 2}, {weight: 1}}
	for i, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, 2 * time.Minute} {
		got := share(left, cases[i:])
		if got != want {
			t.Errorf("case %d has %s, wanted %s", i, got, want)
		}
		left -= got
	}
}

func TestATraceTellsWhatAProgramSpendsItsTimeOn(t *testing.T) {
	const text = `bench 7 PERF_RECORD_COMM exec: gresnet-prolog:7/7
gresnet-prolog 7 
	          401000 [unknown]

gresnet-prolog 7 
	ffffffff81000001 memset
	ffffffff81000002 asm_exc_page_fault
	          401000 [unknown]

gresnet-prolog 8 
	ffffffff81000003 __dev_change_net_namespace
	ffffffff81000004 do_setlink
	ffffffff81000005 netlink_sendmsg

(udev-worker) 9 
	ffffffff81000006 do_syscall_64
`
	got, err := readTrace(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := trace{
		samples: map[string]map[string]int{
			"gresnet-prolog": {own: 1, "page faults": 1, "moves of interfaces": 1},
			"(udev-worker)":  {rest: 1},
		},
		starts: map[string]int{"gresnet-prolog": 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
