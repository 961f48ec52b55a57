// Package hint puts beside an error, which says what went wrong, what a person
// can do about it.
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

// Of is the hint of an error or of what it wraps; empty if there is none.
func Of(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
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

// Clip keeps a text that should have been short from filling a log.
func Clip(text string) string {
	const most = 120
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
