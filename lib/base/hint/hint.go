// Package hint puts beside an error, which says what went wrong, what a person
// can do about it.
//
// A hint begins with the id of its message, as in "GN012 see ip route". People search for the id:
// gresnet explain has all (Explain). go test ./lib/base/hint -update gives a new one its id, and makes the list
// out of the code.
package hint

import (
	"errors"
	"slices"
	"strings"
)

// With is an error with a hint. Of several in a chain the outermost counts.
func With(err error, text string) error {
	if err == nil {
		return nil
	}
	return hinted{err, text}
}

// Whole returns the hint of an error or of what it wraps, with its id; empty if there is none.
func Whole(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// Of returns the hint of an error or of what it wraps; empty if there is none.
func Of(err error) string {
	_, text := Cut(Whole(err))
	return text
}

// ID returns the id of an error's message; empty if it has none.
func ID(err error) string {
	id, _ := Cut(Whole(err))
	return id
}

// Cut splits a hint into the id of its message and what to do.
func Cut(hint string) (id, text string) {
	const size = len("GN012")
	if len(hint) <= size || hint[:2] != "GN" || hint[size] != ' ' || strings.Trim(hint[2:size], "0123456789") != "" {
		return "", hint
	}
	return hint[:size], hint[size+1:]
}

// Tag returns how a message has its id at the end; empty without one.
func Tag(id string) string {
	if id == "" {
		return ""
	}
	return " [" + id + "]"
}

type hinted struct {
	error
	hint string
}

func (h hinted) Unwrap() error { return h.error }

// Hint says what to do about the error.
func (h hinted) Hint() string { return h.hint }

// Join joins errors as errors.Join does, but on one line, since a log and a hint have lines.
func Join(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return joined(errs)
}

type joined []error

func (j joined) Error() string {
	texts := make([]string, len(j))
	for i, err := range j {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (j joined) Unwrap() []error { return j }

// Each returns the errors that Join joined, or the one that is none of Join's.
func Each(err error) []error {
	var j joined
	switch {
	case err == nil:
		return nil
	case errors.As(err, &j):
		return j
	}
	return []error{err}
}

// Clip keeps a text that should have been short from filling a log.
func Clip(text string) string {
	const most = 120
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
