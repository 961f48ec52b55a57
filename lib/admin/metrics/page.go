package metrics

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gresnet/lib/base/hint"
)

// Page is what a file says: a value for each series that there is.
type Page struct {
	families []Family
	values   map[string]float64
	opened   map[string][]string // series that the node decides, in their order, by family
}

// row is a line of the file: a comment, or a series.
type row struct {
	text   string // the comment, or the series without its value
	series bool
	whole  bool // its value is a whole number
}

// New returns a page on which nothing has been counted.
func New() *Page { return blank(counted()) }

// NewRunning returns a page for what jobs that run have counted so far.
func NewRunning() *Page { return blank(running()) }

func blank(families []Family) *Page {
	return &Page{families, map[string]float64{}, map[string][]string{}}
}

// fixed returns the rows of a family that are always there.
func (f Family) fixed() []row {
	rows := []row{
		{text: "# HELP " + f.Name + " " + f.Help},
		{text: fmt.Sprintf("# TYPE %s %s", f.Name, f.Kind)},
	}
	for _, labels := range f.sets() {
		rows = append(rows, f.rows(labels)...)
	}
	return rows
}

// sets returns all combinations of the values of a family's labels.
func (f Family) sets() [][]string {
	all := [][]string{nil}
	for _, l := range f.Labels {
		var longer [][]string
		for _, set := range all {
			for _, v := range l.Values {
				longer = append(longer, append(slices.Clone(set), v))
			}
		}
		all = longer
	}
	return all
}

// rows returns the series of a family with one set of labels.
func (f Family) rows(labels []string) []row {
	if f.Kind != Histogram {
		return []row{{f.series("", labels, ""), true, true}}
	}
	var rows []row
	for _, bound := range f.bounds() {
		rows = append(rows, row{f.series("_bucket", labels, bound), true, true})
	}
	return append(rows,
		row{f.series("_sum", labels, ""), true, false},
		row{f.series("_count", labels, ""), true, true})
}

// bounds returns the upper bounds of a histogram's buckets as the file has them.
func (f Family) bounds() []string {
	var texts []string
	for _, b := range f.Bounds {
		texts = append(texts, number(b))
	}
	return append(texts, "+Inf")
}

// series returns a series' name with its labels.
func (f Family) series(suffix string, labels []string, bound string) string {
	var pairs []string
	for i, v := range labels {
		pairs = append(pairs, fmt.Sprintf("%s=%q", f.Labels[i].Name, v))
	}
	if bound != "" {
		pairs = append(pairs, fmt.Sprintf("le=%q", bound))
	}
	if len(pairs) == 0 {
		return f.Name + suffix
	}
	return f.Name + suffix + "{" + strings.Join(pairs, ",") + "}"
}

// Set sets a gauge, told by its name and the values of its labels.
func (p *Page) Set(name string, value float64, labels ...string) error {
	return p.change(Gauge, name, labels, func(float64) float64 { return value })
}

// Add adds to a counter.
func (p *Page) Add(name string, more float64, labels ...string) error {
	return p.change(Counter, name, labels, func(old float64) float64 { return old + more })
}

func (p *Page) change(kind Kind, name string, labels []string, f func(float64) float64) error {
	family, err := p.find(kind, name, labels)
	if err != nil {
		return err
	}
	key := family.series("", labels, "")
	if family.open() {
		if err := p.openSeries(name, key); err != nil {
			return err
		}
	}
	p.values[key] = f(p.values[key])
	return nil
}

// openSeries adds a series that the node decides, unless it is there.
func (p *Page) openSeries(name, key string) error {
	at, there := slices.BinarySearch(p.opened[name], key)
	if there {
		return nil
	}
	if len(p.opened[name]) == maxOpened {
		return fmt.Errorf("count %s: there are %d of it already", name, maxOpened)
	}
	p.opened[name] = slices.Insert(p.opened[name], at, key)
	return nil
}

// count adds what another page has counted. Gauges stay as they are.
func (p *Page) count(more *Page) (err error) {
	for _, f := range p.families {
		if f.Kind == Gauge {
			continue
		}
		for _, r := range f.fixed() {
			if r.series {
				p.values[r.text] += more.values[r.text]
			}
		}
		for _, key := range more.opened[f.Name] {
			if full := p.openSeries(f.Name, key); full != nil {
				err = hint.Join(err, full)
				continue
			}
			p.values[key] += more.values[key]
		}
	}
	return err
}

// maxOpened is how many series of a family a node can have. Names of devices can change without
// end, and the file is read as a whole.
const maxOpened = 1000

// IsWord tells what the value of a label can be that the node decides.
func IsWord(value string) bool {
	return value != "" && len(value) <= 64 && !strings.ContainsFunc(value, func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("_.:-", c)
	})
}

// Observe puts a value into a histogram.
func (p *Page) Observe(name string, value float64, labels ...string) error {
	f, err := p.find(Histogram, name, labels)
	if err != nil {
		return err
	}
	for i, bound := range f.bounds() {
		if i == len(f.Bounds) || value <= f.Bounds[i] {
			p.values[f.series("_bucket", labels, bound)]++
		}
	}
	p.values[f.series("_sum", labels, "")] += value
	p.values[f.series("_count", labels, "")]++
	return nil
}

// find returns the family of a series that there is.
func (p *Page) find(kind Kind, name string, labels []string) (Family, error) {
	for _, f := range p.families {
		known := f.Name == name && f.Kind == kind && len(f.Labels) == len(labels)
		for i := 0; known && i < len(labels); i++ {
			known = slices.Contains(f.Labels[i].Values, labels[i]) || f.open() && IsWord(labels[i])
		}
		if known {
			return f, nil
		}
	}
	return Family{}, fmt.Errorf("count %s: there is no such %s with the labels %q", name, kind, labels)
}
