package sysctl

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// UnmarshalJSON reads values. An interface has more than a hundred, which are most of what a lease's
// journal has: those that were written plainly are taken apart here, in half the time.
func (v *Values) UnmarshalJSON(text []byte) error {
	if all, is := plain(string(text)); is && *v == nil {
		*v = all
		return nil
	}
	return json.Unmarshal(text, (*map[string]string)(v))
}

// plain reads an object of strings that has no space, and no character that is written by others.
func plain(text string) (all Values, is bool) {
	rest, begun := strings.CutPrefix(text, "{")
	if !begun || strings.Contains(text, `\`) || !utf8.ValidString(text) {
		return nil, false
	}
	all = make(Values, strings.Count(text, `":"`))
	for {
		name, after, named := strings.Cut(rest, `":"`)
		name, quoted := strings.CutPrefix(name, `"`)
		value, after, valued := strings.Cut(after, `"`)
		if !named || !quoted || !valued || strings.Contains(name, `"`) {
			return nil, false
		}
		all[name] = value
		if after == "}" {
			return all, true
		}
		if rest, is = strings.CutPrefix(after, ","); !is {
			return nil, false
		}
	}
}
