package gres

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/slurm"
)

// ParseRequest parses a list of GRES as a job asks for them, or as Slurm says
// what it got: "nic:2", "nic:mlx5", "nic:2(IDX:0,3),hca". Each must be among names.
func ParseRequest(text string, names []string, source string) ([]Want, error) {
	var wants []Want
	for _, part := range slurm.Parts(text) {
		w, err := parseRequested(part, names)
		if err != nil {
			return nil, fmt.Errorf("parse GRES %q: %w", hint.Clip(part), err)
		}
		if slices.ContainsFunc(wants, func(o Want) bool { return o.Gres == w.Gres && o.Type == w.Type }) {
			return nil, fmt.Errorf("parse GRES %q: it is there twice", hint.Clip(part))
		}
		if i, is := repeated(wants, w); is {
			return nil, fmt.Errorf("parse GRES %q: index %d of %s is there twice", hint.Clip(part), i, w.Gres)
		}
		w.Source = source
		wants = append(wants, w)
	}
	return wants, nil
}

// repeated returns an index of a want that others have, too. A name has its indices over
// all of its types: whoever says one twice counts an HCA twice.
func repeated(wants []Want, w Want) (index int, is bool) {
	for _, o := range wants {
		for _, i := range o.Indices {
			if o.Gres == w.Gres && slices.Contains(w.Indices, i) {
				return i, true
			}
		}
	}
	return 0, false
}

func parseRequested(part string, names []string) (Want, error) {
	head, inside, err := splitDetail(part)
	if err != nil {
		return Want{}, err
	}
	fields := strings.Split(head, ":")
	if !slices.Contains(names, fields[0]) {
		return Want{}, fmt.Errorf("%q is not a GRES that means an HCA; those are %s", hint.Clip(fields[0]), strings.Join(names, ", "))
	}
	var w Want
	if inside != "" || strings.HasSuffix(part, ")") {
		w, err = parseWant(fields, inside)
	} else {
		w, err = parseAsked(fields)
	}
	switch {
	case err != nil:
		return Want{}, err
	case len(w.Indices) == 0 && w.Count == 0:
		return Want{}, errors.New("its count is 0")
	}
	return w, nil
}

// parseAsked parses name[:type][:count] as srun takes it: no count is one.
func parseAsked(fields []string) (Want, error) {
	w := Want{Gres: fields[0], Count: 1}
	rest := fields[1:]
	if last := len(rest) - 1; last >= 0 && isNumber(rest[last]) {
		var err error
		if w.Count, err = parseCount(rest[last]); err != nil {
			return Want{}, err
		}
		rest = rest[:last]
	}
	return withType(w, rest)
}
