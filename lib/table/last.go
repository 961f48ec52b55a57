package table

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"gresnet/lib/node"
)

// last is the table that was last read. Each job that begins or ends changes the table for all
// others, by a claim or two. To parse the JSON of many HCAs takes longer than to compare it, so only
// elements of lists that are new are parsed.
type last struct {
	mutex  sync.Mutex
	text   []byte
	table  Table
	hcas   map[string]node.HCA // by their texts
	claims map[string]Claim
}

func (l *last) parse(text []byte) (Table, error) {
	if l == nil {
		return parse(text)
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.text == nil || !bytes.Equal(text, l.text) {
		if err := l.read(text); err != nil {
			return Table{}, err
		}
	}
	return l.table.clone(), nil
}

func (l *last) read(text []byte) error {
	if err := whole(text); err != nil {
		return err
	}
	rest, hcas := without(string(text), "hcas", l.hcas)
	rest, claims := without(rest, "claims", l.claims)
	t, err := decode([]byte(rest))
	if err != nil {
		return err
	}
	known, err := merge(hcas, l.hcas, &t.HCAs)
	if err != nil {
		return err
	}
	claimed, err := merge(claims, l.claims, &t.Claims)
	if err != nil {
		return err
	}
	if err := t.check(); err != nil {
		return err
	}
	l.text, l.table, l.hcas, l.claims = text, t, known, claimed
	return nil
}

// without returns a text whose list lacks the elements that are known, and the texts of all its
// elements. They can be told by their indentation: no string in JSON contains a line feed.
func without[T any](text, list string, known map[string]T) (rest string, elements []string) {
	before, after, _ := strings.Cut(text, "\n  \""+list+"\": [\n    {")
	body, end, some := strings.Cut(after, "\n  ]")
	if !some {
		return text, nil
	}
	const between = ",\n    {"
	elements = strings.Split(body, between)
	var left []string
	for _, e := range elements {
		if _, is := known[e]; !is {
			left = append(left, e)
		}
	}
	if rest = strings.Join(left, between); rest != "" {
		rest = "{" + rest
	}
	return before + "\n  \"" + list + "\": [" + rest + "]" + end, elements
}

// merge puts the elements of a list that are known between those that were parsed, and returns what
// is known now.
func merge[T any](elements []string, known map[string]T, values *[]T) (map[string]T, error) {
	if len(elements) == 0 {
		return nil, nil
	}
	now, parsed := map[string]T{}, *values
	*values = nil
	for _, e := range elements {
		v, is := known[e]
		if !is && len(parsed) == 0 {
			return nil, fmt.Errorf("%w: it is not laid out as it should be", ErrDamaged)
		}
		if !is {
			v, parsed = parsed[0], parsed[1:]
		}
		*values, now[e] = append(*values, v), v
	}
	return now, nil
}
