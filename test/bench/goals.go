package main

import (
	"fmt"
	"strings"
)

// goal is what gresnet wants to be, by one figure for each way.
type goal struct {
	name  string
	bound float64
	// above says that the figure is to be above the bound, not below.
	above bool
	value func(way string) (float64, bool)
}

// goals returns those that a run in the VM shows.
func (r results) goals() []goal {
	floor := func(name string) func(string) (float64, bool) {
		return func(way string) (float64, bool) { return r.of(name).ratio("gresnet", way) }
	}
	against := func(name string) func(string) (float64, bool) {
		return func(way string) (float64, bool) {
			here, took := r.of(name).median("gresnet", way)
			base, there := r.of(base().Name).median("gresnet", way)
			return here / base, took && there
		}
	}
	return []goal{
		{"8 HCAs: gresnet : floor", 1.15, false, floor(base().Name)},
		{"8 HCAs: gresnet : floor and udev after it", 1.15, false, r.of(base().Name).settled},
		{"8 HCAs: script : gresnet", 4, true, r.of(base().Name).faster("script")},
		{"8 HCAs: plain script : gresnet", 4, true, r.of(base().Name).faster("plain")},
		{"1 HCA: gresnet : floor", 1.3, false, floor("1 HCA")},
		{"1 HCA: gresnet : floor and udev after it", 1.15, false, r.of("1 HCA").settled},
		{"no HCA: gresnet : a program that does nothing", 1.3, false, floor("0 HCAs")},
		{"64 HCAs against 8, for each", 1, false, r.forEach},
		{"10000 unrelated routes against 1", 1.1, false, against("10000 unrelated routes")},
		{"1000 unrelated interfaces against none", 1.2, false, against("1000 unrelated interfaces")},
		{"64 jobs at once : their floors one after another", 1.2, false, floor("64 jobs at once, 1 HCA each")},
		{"most memory, MB", 20, false, r.memory},
	}
}

// of returns what was measured of a case, nothing if it was not.
func (r results) of(name string) measured {
	for _, m := range r.Cases {
		if m.Name == name {
			return m
		}
	}
	return measured{}
}

// forEach returns what an HCA takes of a job's 64, of what one takes of 8.
func (r results) forEach(way string) (float64, bool) {
	many, took := r.of("64 HCAs").median("gresnet", way)
	few, there := r.of(base().Name).median("gresnet", way)
	return many / 64 / (few / 8), took && there
}

func (r results) memory(string) (float64, bool) {
	return float64(r.peak()) * 1024 / 1e6, r.peak() > 0
}

// scorecard returns the table of goals, and which are reached.
func (r results) scorecard() string {
	var b strings.Builder
	b.WriteString("| goal | | prolog | epilog |\n| --- | --- | --- | --- |\n")
	for _, g := range r.goals() {
		sign := "≤"
		if g.above {
			sign = "≥"
		}
		fmt.Fprintf(&b, "| %s | %s %v | %s | %s |\n", g.name, sign, g.bound, g.cell("in"), g.cell("out"))
	}
	return b.String()
}

func (g goal) cell(way string) string {
	value, there := g.value(way)
	switch {
	case !there:
		return "-"
	case (value > g.bound) == g.above || value == g.bound:
		return fmt.Sprintf("%.2f", value)
	}
	return fmt.Sprintf("**%.2f**", value)
}
