package gres

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/slurm"
)

// maxCount bounds what a node can have of one GRES.
const maxCount = node.MaxIndex + 1

// cutLength is the length at which Slurm cuts a list of indices, perhaps in the middle of a number. The buffer
// has 128 bytes (tmp_str of _foreach_job_build_details). bit_fmt ends the text with a zero and removes the last
// character, which is a comma if nothing was cut. A list of this length may be whole or cut: nothing tells.
// Users' requests make lists long, so the job is refused and the node stays in service.
const cutLength = 126

// ParseDetail reads what Slurm says of a job's GRES on one node, and wants what
// is among names. What is not is skipped, whatever its form. The forms
// (Slurm src/stepmgr/gres_stepmgr.c:_foreach_job_build_details) are
//
//	name[:type]:count(IDX:0-1,3)   the GRES has files
//	name[:type](CNT:count)         it has none
//	name[:type]:count(a/b,a/b)     it is shared, like shard
//	(IDX:)                         nothing
//	name[:type]:0(IDX:0), name[:type]:0(IDX:), name[:type](CNT:0)
//	                               whatever Gres=name:no_consume:1 of slurm.conf means: refused
func ParseDetail(text string, names []string) ([]Want, error) {
	if text == "" || text == "(null)" {
		return nil, nil
	}
	var wants []Want
	for _, part := range slurm.Parts(text) {
		head, inside, err := splitDetail(part)
		if err != nil {
			return nil, fmt.Errorf("parse GRES %q: %w", hint.Clip(part), err)
		}
		fields := strings.Split(head, ":")
		i := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, fields[0]) })
		if i < 0 {
			continue
		}
		fields[0] = names[i] // in whatever case GresTypes of slurm.conf has it
		if list, is := strings.CutPrefix(inside, "IDX:"); is && len(list) >= cutLength {
			return nil, &Refusal{
				Ask: fmt.Sprintf("%s of %s, which source %s says the job has", head, hint.Clip(list), config.Scontrol),
				Why: fmt.Sprintf("Slurm cuts a list of indices at %d characters", cutLength),
				Do:  "GN374 ask for all of the GRES or for fewer, so that the list is shorter",
			}
		}
		w, err := parseWant(fields, inside)
		if errors.As(err, new(*Refusal)) {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("parse GRES %q: %w", hint.Clip(part), err)
		}
		if i, is := repeated(wants, w); is {
			return nil, fmt.Errorf("parse GRES %q: index %d of %s is there twice", hint.Clip(part), i, w.Gres)
		}
		if w.Source = config.Scontrol; len(w.Indices) > 0 || w.Count > 0 {
			wants = append(wants, w)
		}
	}
	return wants, nil
}

// splitDetail splits "head(inside)". inside is empty if there are no parentheses.
func splitDetail(part string) (head, inside string, err error) {
	head, inside, opened := strings.Cut(part, "(")
	if !opened && !strings.Contains(part, ")") {
		return head, "", nil
	}
	inside, closed := strings.CutSuffix(inside, ")")
	if !opened || !closed || strings.ContainsAny(head+inside, "()") {
		return "", "", errors.New("the parentheses do not match")
	}
	return head, inside, nil
}

func parseWant(fields []string, inside string) (Want, error) {
	w := Want{Gres: fields[0]}
	if count, ok := strings.CutPrefix(inside, "CNT:"); ok {
		return parseCounted(w, fields[1:], count)
	}
	if indices, ok := strings.CutPrefix(inside, "IDX:"); ok {
		return parseIndexed(w, fields[1:], indices)
	}
	return Want{}, fmt.Errorf("unknown form; known are name:count(IDX:…) and name(CNT:…)")
}

func parseCounted(w Want, fields []string, text string) (Want, error) {
	var err error
	if w.Count, err = parseCount(text); err != nil {
		return Want{}, err
	}
	if w.Count == 0 {
		return Want{}, notCounted(w)
	}
	return withType(w, fields)
}

// notCounted refuses a job that asked for what Slurm counts as none. With no_consume the first job has
// an index, and later ones have none (seen with 22.05): nothing tells what the job is to have.
func notCounted(w Want) *Refusal {
	return &Refusal{
		Ask: w.Gres, Why: "Slurm gave the job some and counts 0, as with no_consume",
		Do: `GN407 take no_consume out of slurm.conf; with part = "shared" and count = N in its [[hca]], and Gres=` + w.Gres + `:N, N jobs have the HCA`,
	}
}

func parseIndexed(w Want, fields []string, text string) (Want, error) {
	if len(fields) == 0 {
		return Want{}, fmt.Errorf("it has no count")
	}
	count, err := parseCount(fields[len(fields)-1])
	if err != nil {
		return Want{}, err
	}
	if text != "" {
		if w.Indices, err = node.ParseIndices(text); err != nil {
			return Want{}, err
		}
	}
	if count == 0 {
		return Want{}, notCounted(w)
	}
	if count != len(w.Indices) {
		return Want{}, fmt.Errorf("it counts %d and has %d indices", count, len(w.Indices))
	}
	return withType(w, fields[:len(fields)-1])
}

// withType takes what is left of the head's fields.
func withType(w Want, fields []string) (Want, error) {
	switch {
	case len(fields) > 1 || len(fields) == 1 && fields[0] == "":
		return Want{}, fmt.Errorf("unknown form; known are name:type:count(IDX:…) and name:type(CNT:…)")
	case len(fields) == 1:
		w.Type = fields[0]
	}
	return w, nil
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func parseCount(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no count", hint.Clip(text))
	case n > maxCount:
		return 0, fmt.Errorf("a count of %d is beyond %d", n, maxCount)
	}
	return int(n), nil
}
