package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ways are the two directions, as people call them.
var ways = []struct{ key, name string }{{"in", "prolog"}, {"out", "epilog"}}

// table is for a terminal: medians in ms, and in floors.
func (r results) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "kernel %s, %s form; medians in ms, times the floor in brackets\n", r.Kernel, r.Form)
	fmt.Fprintf(&b, "%-28s %-6s %6s %8s %16s %16s %16s %16s %6s\n", "", "", "rounds", "floor", "gresnet", "script", "plain", cniName, "udev")
	for _, m := range r.Cases {
		for _, w := range ways {
			floor, _ := m.median("floor", w.key)
			fmt.Fprintf(&b, "%-28s %-6s %6d %8.1f %16s %16s %16s %16s", m.Name, w.name, m.rounds(), floor,
				m.cell("gresnet", w.key), m.cell("script", w.key), m.cell("plain", w.key), m.cell(cniName, w.key))
			if udev, there := m.median("floor", "udev"); there && w.key == "out" {
				fmt.Fprintf(&b, " %6.1f", udev)
			}
			b.WriteByte('\n')
		}
	}
	if peak := r.peak(); peak > 0 {
		fmt.Fprintf(&b, "gresnet's peak memory: %.1f MB\n", float64(peak)*1024/1e6)
	}
	return b.String()
}

func (m measured) cell(tool, way string) string {
	took, there := m.median(tool, way)
	if !there {
		return "-"
	}
	ratio, _ := m.ratio(tool, way)
	return fmt.Sprintf("%.1f (%.2f)", took, ratio)
}

// row is README's: what a prolog and an epilog of usual nodes take, in seconds.
func (r results) row() string {
	names, took, line := "|", "|", "|"
	for _, name := range []string{"1 HCA", "4 HCAs", base().Name, base().Name + ", shared", base().Name + ", IPoIB"} {
		in, _ := r.of(name).median("gresnet", "in")
		out, there := r.of(name).median("gresnet", "out")
		if !there {
			continue
		}
		names += " " + name + " |"
		line += " --- |"
		took += fmt.Sprintf(" %.2f s in, %.2f s out |", in/1000, out/1000)
	}
	return names + "\n" + line + "\n" + took + "\n"
}

// plotted are cases that only the plot and the goals show.
var plotted = []string{
	"2 HCAs", "4 HCAs", "16 HCAs", "32 HCAs", "100 unrelated routes", "10000 unrelated routes", "1000 unrelated interfaces",
	"1 HCA, links train 2.5 s", "4 HCAs, links train 2.5 s", "8 HCAs, links train 2.5 s",
}

// markdown returns a table of the cases that say most.
func (r results) markdown() string {
	var b strings.Builder
	b.WriteString("| prolog, epilog | floor, ms | gresnet, ms | gresnet : floor | epilog : floor + udev |\n")
	b.WriteString("| --- | --- | --- | --- | --- |\n")
	for _, m := range r.Cases {
		if slices.Contains(plotted, m.Name) {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", m.Name,
			m.both(func(way string) (float64, bool) { return m.median("floor", way) }, "%.0f"),
			m.both(func(way string) (float64, bool) { return m.median("gresnet", way) }, "%.0f"),
			m.both(func(way string) (float64, bool) { return m.ratio("gresnet", way) }, "%.2f"),
			cell(m.settled("out")))
	}
	return b.String()
}

// cell returns one figure, if there is one.
func cell(value float64, there bool) string {
	if !there {
		return "-"
	}
	return fmt.Sprintf("%.2f", value)
}

// settled returns what gresnet's way out is of the floor's and the time that udev is at work
// after that, which gresnet waits for. After the floor's way in udev is at work for a millisecond.
func (m measured) settled(way string) (float64, bool) {
	own, _ := m.median("gresnet", "out")
	floor, _ := m.median("floor", "out")
	udev, there := m.median("floor", "udev")
	return own / (floor + udev), there && way == "out"
}

// peers returns a table of what others take for the base case, and of what they leave undone.
func (r results) peers() string {
	var b strings.Builder
	b.WriteString("| 8 HCAs | of gresnet's times | not restored |\n| --- | --- | --- |\n")
	m := r.of(base().Name)
	for _, peer := range []struct{ tool, text string }{
		{"script", "script"},
		{"plain", "plain script"},
		{cniName, "CNI: host-device, rdma-cni"},
	} {
		if _, there := m.median(peer.tool, "out"); !there {
			continue
		}
		lacks := strings.Join(m.Lost[peer.tool], ", ")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", peer.text, m.both(m.faster(peer.tool), "%.1f"), cmp.Or(lacks, "nothing"))
	}
	return b.String()
}

// faster returns how many times faster than a script gresnet is.
func (m measured) faster(than string) func(way string) (float64, bool) {
	return func(way string) (float64, bool) {
		script, there := m.median(than, way)
		own, _ := m.median("gresnet", way)
		return script / own, there
	}
}

// both prints a figure of either way.
func (m measured) both(figure func(string) (float64, bool), format string) string {
	var texts []string
	for _, w := range ways {
		v, there := figure(w.key)
		if !there {
			return "-"
		}
		texts = append(texts, fmt.Sprintf(format, v))
	}
	return strings.Join(texts, ", ")
}

// What a document has between two lines is made from the results of a run.
const end = "<!-- figures end -->\n"

// begin returns the line before the figures of a kind.
func begin(kind string) string { return "<!-- figures: " + kind + " -->\n" }

// figures returns the figures of a kind in a text.
func figures(text, kind string) (before, between, after string, err error) {
	before, rest, first := strings.Cut(text, begin(kind))
	between, after, second := strings.Cut(rest, end)
	if !first || !second {
		return "", "", "", fmt.Errorf("the lines that mark the figures of %s are not there", kind)
	}
	return before, between, after, nil
}

// fill puts a table where a text has its figures.
func fill(text, kind, table string) (string, error) {
	before, _, after, err := figures(text, kind)
	if err != nil {
		return "", err
	}
	return before + begin(kind) + table + end + after, nil
}
