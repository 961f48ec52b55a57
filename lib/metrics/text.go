package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrDamaged means that a file is not as this program wrote it.
var ErrDamaged = errors.New("metrics file damaged, or of another version")

// Text is the page in Prometheus' text format.
func (p *Page) Text() []byte {
	var b bytes.Buffer
	for _, r := range p.rows {
		b.WriteString(r.text)
		if r.series {
			b.WriteString(" " + number(p.values[r.text]))
		}
		b.WriteByte('\n')
	}
	return b.Bytes()
}

// Parse reads a page that is what Text made of it, to the byte.
func Parse(text []byte) (*Page, error) {
	p := New()
	lines := strings.Split(string(text), "\n")
	if len(lines) != len(p.rows)+1 || lines[len(p.rows)] != "" {
		return nil, fmt.Errorf("%w: it has not %d lines", ErrDamaged, len(p.rows))
	}
	for i, r := range p.rows {
		value, is := strings.CutPrefix(lines[i], r.text)
		switch {
		case is && !r.series && value == "":
		case is && r.series && strings.HasPrefix(value, " "):
			v, err := parseNumber(value[1:], r.whole)
			if err != nil {
				return nil, fmt.Errorf("%w: line %d: %w", ErrDamaged, i+1, err)
			}
			p.values[r.text] = v
		default:
			return nil, fmt.Errorf("%w: line %d is not of %s", ErrDamaged, i+1, r.text)
		}
	}
	return p, p.check()
}

// check is an error if a histogram contradicts itself.
func (p *Page) check() error {
	for _, f := range Families() {
		if f.Kind != Histogram {
			continue
		}
		for _, labels := range f.sets() {
			below := 0.0
			for _, bound := range f.bounds() {
				count := p.values[f.series("_bucket", labels, bound)]
				if count < below {
					return fmt.Errorf("%w: %s has fewer than a smaller bucket", ErrDamaged, f.series("_bucket", labels, bound))
				}
				below = count
			}
			if count := f.series("_count", labels, ""); p.values[count] != below {
				return fmt.Errorf("%w: %s is not the number of all values", ErrDamaged, count)
			}
		}
	}
	return nil
}

// number is how the file has a value.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// parseNumber reads a value that number wrote. Beyond 2^53 not every whole
// number is one, and adding to it may not change it.
func parseNumber(text string, whole bool) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || v < 0 || v > 1<<53 || number(v) != text {
		return 0, fmt.Errorf("%q is not a value", text)
	}
	if whole && v != math.Trunc(v) {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return v, nil
}
