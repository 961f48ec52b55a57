package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// errDamaged means that a file is not as this program wrote it.
var errDamaged = errors.New("metrics file damaged, or of another version")

// Text returns the page in Prometheus' text format.
func (p *Page) Text() []byte {
	var b bytes.Buffer
	for _, f := range p.families {
		for _, r := range f.fixed() {
			b.WriteString(r.text)
			if r.series {
				b.WriteString(" " + number(p.values[r.text]))
			}
			b.WriteByte('\n')
		}
		for _, series := range p.opened[f.Name] {
			fmt.Fprintf(&b, "%s %s\n", series, number(p.values[series]))
		}
	}
	return b.Bytes()
}

// parse reads a page that is what Text made of it, to the byte.
func parse(text []byte) (*Page, error) {
	r := reader{page: New(), ahead: string(text)}
	for _, f := range r.page.families {
		for _, row := range f.fixed() {
			if err := r.fixed(row); err != nil {
				return nil, fmt.Errorf("%w: line %d: %w", errDamaged, r.line, err)
			}
		}
		for f.open() && strings.HasPrefix(r.ahead, f.Name+"{") {
			if err := r.opened(f); err != nil {
				return nil, fmt.Errorf("%w: line %d: %w", errDamaged, r.line, err)
			}
		}
	}
	if r.ahead != "" {
		return nil, fmt.Errorf("%w: it goes on after line %d", errDamaged, r.line)
	}
	return r.page, r.page.check()
}

// reader reads a page line by line.
type reader struct {
	page  *Page
	ahead string // what is not read yet
	line  int    // the one that was read last
}

// next returns the next line, which must have an end.
func (r *reader) next() (string, error) {
	r.line++
	text, ahead, ends := strings.Cut(r.ahead, "\n")
	if !ends {
		return "", errors.New("it is cut off")
	}
	r.ahead = ahead
	return text, nil
}

// fixed reads the line of a row that is always there.
func (r *reader) fixed(want row) error {
	line, err := r.next()
	if err != nil {
		return err
	}
	value, is := strings.CutPrefix(line, want.text)
	if !is || !want.series && value != "" || want.series && !strings.HasPrefix(value, " ") {
		return fmt.Errorf("it is not of %s", want.text)
	}
	if want.series {
		r.page.values[want.text], err = parseNumber(value[1:], want.whole, maxCount)
	}
	return err
}

// opened reads a series that the node decides.
func (r *reader) opened(f Family) error {
	line, err := r.next()
	if err != nil {
		return err
	}
	series, value, _ := strings.Cut(line, " ")
	before := r.page.opened[f.Name]
	switch labels, is := f.labels(series); {
	case !is || f.series("", labels, "") != series:
		return fmt.Errorf("it is not of %s", f.Name)
	case len(before) > 0 && before[len(before)-1] >= series:
		return fmt.Errorf("%s is not in its place", series)
	case len(before) == maxOpened:
		return fmt.Errorf("there are more than %d of %s", maxOpened, f.Name)
	}
	r.page.opened[f.Name] = append(before, series)
	r.page.values[series], err = parseNumber(value, true, maxTraffic)
	return err
}

// labels returns the values of the labels of a series that the node decides.
func (f Family) labels(series string) (values []string, is bool) {
	inside, braced := strings.CutSuffix(strings.TrimPrefix(series, f.Name+"{"), "}")
	pairs := strings.Split(inside, ",")
	if !braced || len(pairs) != len(f.Labels) {
		return nil, false
	}
	for _, pair := range pairs {
		_, quoted, _ := strings.Cut(pair, "=")
		value := strings.Trim(quoted, `"`)
		if !IsWord(value) {
			return nil, false
		}
		values = append(values, value)
	}
	return values, true
}

// check is an error if a histogram contradicts itself.
func (p *Page) check() error {
	for _, f := range p.families {
		if f.Kind != Histogram {
			continue
		}
		for _, labels := range f.sets() {
			below := 0.0
			for _, bound := range f.bounds() {
				count := p.values[f.series("_bucket", labels, bound)]
				if count < below {
					return fmt.Errorf("%w: %s has fewer than a smaller bucket", errDamaged, f.series("_bucket", labels, bound))
				}
				below = count
			}
			if count := f.series("_count", labels, ""); p.values[count] != below {
				return fmt.Errorf("%w: %s is not the number of all values", errDamaged, count)
			}
		}
	}
	return nil
}

// number returns how the file has a value.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Bounds of values. Beyond 2^53 not every whole number is a value, and adding one may change
// nothing. Bytes are that many after days, and one of them is nothing then.
const (
	maxCount   = 1 << 53
	maxTraffic = 1 << 80
)

// parseNumber reads a value that number wrote.
func parseNumber(text string, whole bool, most float64) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > most || number(v) != text {
		return 0, fmt.Errorf("%q is not a value", text)
	}
	if whole && v != math.Trunc(v) {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return v, nil
}
