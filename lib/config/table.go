package config

import (
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/hint"
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

// fail notes what is wrong with a key.
func (t table) fail(key, hint, format string, a ...any) {
	name := join(t.name, key)
	t.note(key, hint, name+": "+fmt.Sprintf(format, a...))
}

func (t table) note(key, hint, text string) {
	t.doc.problems = append(t.doc.problems, lineError{
		file: t.doc.name, line: t.doc.line(join(t.place, key)), text: text, hint: hint,
	})
}

// check notes what is wrong with a key's value, if anything.
func (t table) check(key string, err error) {
	if err == nil {
		return
	}
	t.fail(key, hint.Whole(err), "%s", err)
}

// once notes a thing that an earlier table of the document has said.
func (t table) once(key, thing string) {
	id := join(t.name, key) + " " + thing
	if first, said := t.doc.seen[id]; said {
		t.fail(key, "GN166 leave one of the two", "%s is there twice, first on line %d", thing, t.doc.line(first))
		return
	}
	t.doc.seen[id] = join(t.place, key)
}

// allow notes keys that are not among those known.
func (t table) allow(known ...string) {
	for key := range t.values {
		if slices.Contains(known, key) {
			continue
		}
		do := fmt.Sprintf("GN167 known keys are %s", strings.Join(known, ", "))
		if near := hint.Nearest(key, known); near != "" {
			do = fmt.Sprintf("GN168 is %q meant?", join(t.name, near))
		}
		t.note(key, do, fmt.Sprintf("unknown key %q", join(t.name, key)))
	}
}

// require notes keys that are not there.
func (t table) require(keys ...string) {
	for _, key := range keys {
		if _, there := t.values[key]; !there {
			t.fail(key, fmt.Sprintf("GN169 every [[%s]] has %s", t.name, strings.Join(keys, " and ")), "is missing")
		}
	}
}

func (t table) text(key string) (string, bool) {
	return value[string](t, key, "a text in quotes")
}

// word is one of a closed set.
func (t table) word(key string, words ...string) (string, bool) {
	text, there := t.text(key)
	if there && !slices.Contains(words, text) {
		t.fail(key, "", "%q is not one of %s", text, quoted(words))
		return "", false
	}
	return text, there
}

func (t table) texts(key string) ([]string, bool) {
	list, there := value[[]any](t, key, "a list of texts in quotes")
	texts := make([]string, 0, len(list))
	for _, v := range list {
		text, ok := v.(string)
		switch {
		case !ok:
			t.fail(key, "", "is not a list of texts in quotes")
			return nil, false
		case slices.Contains(texts, text):
			t.fail(key, "", "%q is there twice", text)
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, there
}

// among is a list of words of a closed set.
func (t table) among(key string, words []string) ([]string, bool) {
	list, there := t.texts(key)
	for _, text := range list {
		if !slices.Contains(words, text) {
			t.fail(key, "GN170 there are "+quoted(words), "%q is not one of them", text)
			return nil, false
		}
	}
	return list, there
}

// words is a list of texts, or one text for a list of one.
func (t table) words(key string) []string {
	if text, one := t.values[key].(string); one {
		return []string{text}
	}
	list, there := t.texts(key)
	if !there {
		return nil
	}
	return list
}

// number is an index.
func (t table) number(key string) (int, bool) {
	n, there := value[int64](t, key, "a number")
	return int(n), there && t.inRange(key, n)
}

func (t table) numbers(key string) ([]int, bool) {
	list, there := value[[]any](t, key, "a list of numbers")
	numbers := make([]int, 0, len(list))
	for _, v := range list {
		n, ok := v.(int64)
		switch {
		case !ok:
			t.fail(key, "", "is not a list of numbers")
			return nil, false
		case !t.inRange(key, n):
			return nil, false
		case slices.Contains(numbers, int(n)):
			t.fail(key, "", "%d is there twice", n)
			return nil, false
		}
		numbers = append(numbers, int(n))
	}
	return numbers, there
}

func (t table) inRange(key string, n int64) bool {
	if n < 0 || n > maxIndex {
		t.fail(key, "", "%d is not from 0 to %d", n, maxIndex)
		return false
	}
	return true
}

// table is the table of that key; empty if there is none.
func (t table) table(key string) table {
	values, _ := value[map[string]any](t, key, "a table, ["+key+"]")
	return table{doc: t.doc, name: join(t.name, key), place: join(t.place, key), values: values}
}

// tables are the tables of an array, [[key]].
func (t table) tables(key string) []table {
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
				t.fail(key, "", "is not %s, [[%s]]", want, key)
				return nil
			}
			all = append(all, values)
		}
	default:
		t.fail(key, "", "is not %s, [[%s]]", want, key)
	}
	out := make([]table, len(all))
	for i, values := range all {
		out[i] = table{doc: t.doc, name: join(t.name, key), place: fmt.Sprintf("%s[%d]", join(t.place, key), i), values: values}
	}
	return out
}

// value is a key's value, if it is of type T.
func value[T any](t table, key, want string) (T, bool) {
	v, there := t.values[key]
	typed, ok := v.(T)
	if there && !ok {
		t.fail(key, "", "is not %s", want)
	}
	return typed, ok
}
