package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
)

// table is a TOML table. Its readers tell whether a key is there with a value
// that can be used; what cannot be is noted in the document.
type table struct {
	doc    *document
	name   string // "hca", for people; empty for the whole document
	place  string // "hca[1]", for lines
	values map[string]any
}

func join(name, key string) string {
	if name == "" {
		return key
	}
	return name + "." + key
}

// Fail notes a fault of a key.
func (t table) Fail(key, hint, format string, a ...any) {
	name := join(t.name, key)
	t.note(key, hint, name+": "+fmt.Sprintf(format, a...))
}

func (t table) note(key, hint, text string) {
	t.doc.problems = append(t.doc.problems, lineError{
		file: t.doc.name, line: t.doc.line(join(t.place, key)), text: text, hint: hint,
	})
}

// Check notes a fault of a key's value, unless it is nil.
func (t table) Check(key string, err error) {
	if err == nil {
		return
	}
	t.Fail(key, hint.Whole(err), "%s", err)
}

// Once notes a fault if an earlier table of the document has said the same thing.
func (t table) Once(key, thing string) {
	id := join(t.name, key) + " " + thing
	if first, said := t.doc.seen[id]; said {
		t.Fail(key, "GN166 leave one of the two", "%s is there twice, first on line %d", thing, t.doc.line(first))
		return
	}
	t.doc.seen[id] = join(t.place, key)
}

// Allow notes keys that are not among the known ones as faults.
func (t table) Allow(known ...string) {
	t.doc.known[t.name] = known
	for key := range t.values {
		if slices.Contains(known, key) {
			continue
		}
		text := fmt.Sprintf("unknown key %q", join(t.name, key))
		if near := hint.Nearest(key, known); near != "" {
			t.note(key, meant(join(t.name, near)), text)
			continue
		}
		t.note(key, fmt.Sprintf("GN167 known keys are %s", strings.Join(known, ", ")), text)
		t.doc.problems[len(t.doc.problems)-1].key = key
	}
}

// meant returns the hint for a key that should have another name.
func meant(names ...string) string {
	return fmt.Sprintf("GN168 is %s meant?", strings.ReplaceAll(quoted(names), ", ", " or "))
}

// Require notes keys that are missing as faults.
func (t table) Require(keys ...string) {
	for _, key := range keys {
		if _, there := t.values[key]; !there {
			t.Fail(key, fmt.Sprintf("GN169 every [[%s]] has %s", t.name, strings.Join(keys, " and ")), "is missing")
		}
	}
}

// Has tells whether a key is there, with any value.
func (t table) Has(key string) bool {
	_, there := t.values[key]
	return there
}

// Keys returns the keys that are there, sorted.
func (t table) Keys() []string { return slices.Sorted(maps.Keys(t.values)) }

// Text returns the text of a key.
func (t table) Text(key string) (string, bool) {
	return valueOf[string](t, key, "a text in quotes")
}

// Word returns the word of a key, which is one of a closed set.
func (t table) Word(key string, words ...string) (string, bool) {
	text, there := t.Text(key)
	if there && !slices.Contains(words, text) {
		t.Fail(key, "", "%q is not one of %s", text, quoted(words))
		return "", false
	}
	return text, there
}

// Choose gives into the word of a key, which is one of a closed set, if the key is there.
func (t table) Choose(key string, into *string, words ...string) {
	if word, there := t.Word(key, words...); there {
		*into = word
	}
}

// Texts returns the list of texts of a key, none of them twice.
func (t table) Texts(key string) ([]string, bool) {
	list, there := valueOf[[]any](t, key, "a list of texts in quotes")
	texts := make([]string, 0, len(list))
	for _, v := range list {
		text, ok := v.(string)
		switch {
		case !ok:
			t.Fail(key, "", "is not a list of texts in quotes")
			return nil, false
		case slices.Contains(texts, text):
			t.Fail(key, "", "%q is there twice", text)
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, there
}

// Among returns the list of words of a key, all of a closed set.
func (t table) Among(key string, words []string) ([]string, bool) {
	list, there := t.Texts(key)
	for _, text := range list {
		if !slices.Contains(words, text) {
			t.Fail(key, "GN170 there are "+quoted(words), "%q is not one of them", text)
			return nil, false
		}
	}
	return list, there
}

// Words returns the list of texts of a key. One text stands for a list of one.
func (t table) Words(key string) []string {
	if text, one := t.values[key].(string); one {
		return []string{text}
	}
	list, there := t.Texts(key)
	if !there {
		return nil
	}
	return list
}

// Number returns the index of a key.
func (t table) Number(key string) (int, bool) {
	n, there := valueOf[int64](t, key, "a number")
	return int(n), there && t.inRange(key, n)
}

// Numbers returns the list of indices of a key, none of them twice.
func (t table) Numbers(key string) ([]int, bool) {
	list, there := valueOf[[]any](t, key, "a list of numbers")
	numbers := make([]int, 0, len(list))
	for _, v := range list {
		n, ok := v.(int64)
		switch {
		case !ok:
			t.Fail(key, "", "is not a list of numbers")
			return nil, false
		case !t.inRange(key, n):
			return nil, false
		case slices.Contains(numbers, int(n)):
			t.Fail(key, "", "%d is there twice", n)
			return nil, false
		}
		numbers = append(numbers, int(n))
	}
	return numbers, there
}

func (t table) inRange(key string, n int64) bool {
	if n < 0 || n > node.MaxIndex {
		t.Fail(key, "", "%d is not from 0 to %d", n, node.MaxIndex)
		return false
	}
	return true
}

// table returns the table of a key. It is empty if there is none.
func (t table) Table(key string) table {
	values, _ := valueOf[map[string]any](t, key, "a table, ["+key+"]")
	return table{doc: t.doc, name: join(t.name, key), place: join(t.place, key), values: values}
}

// Tables returns the tables of an array, [[key]].
func (t table) Tables(key string) []table {
	const want = "an array of tables"
	var all []map[string]any
	switch list := t.values[key].(type) {
	case nil:
	case []map[string]any:
		all = list
	case []any: // key = [{…}, {…}]
		for _, v := range list {
			values, ok := v.(map[string]any)
			if !ok {
				t.Fail(key, "", "is not %s, [[%s]]", want, key)
				return nil
			}
			all = append(all, values)
		}
	default:
		t.Fail(key, "", "is not %s, [[%s]]", want, key)
	}
	out := make([]table, len(all))
	for i, values := range all {
		out[i] = table{doc: t.doc, name: join(t.name, key), place: fmt.Sprintf("%s[%d]", join(t.place, key), i), values: values}
	}
	return out
}

// valueOf returns a key's value, if it is of type T.
func valueOf[T any](t table, key, want string) (T, bool) {
	v, there := t.values[key]
	typed, ok := v.(T)
	if there && !ok {
		t.Fail(key, "", "is not %s", want)
	}
	return typed, ok
}

// quoted returns words in quotes, as a list for a person.
func quoted(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(out, ", ")
}
