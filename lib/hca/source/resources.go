package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/program"
)

// errUnknownForm means that this scontrol does not know the question.
var errUnknownForm = errors.New("unknown form of the question")

// resources asks the question that Slurm 25.11 has for what a job holds, and
// returns it with the GRES in the form that the older text has them (Slurm
// src/plugins/data_parser/v0.0.44/parsers.c:PARSER_ARRAY(NODE_GRES_LAYOUT)).
func (s *scontrol) resources(ctx context.Context, id, node string) (allocation, error) {
	text, err := s.ask(ctx, "show", "resources", id, "--json")
	var exit program.ExitError
	if errors.As(err, &exit) && (unknownForm(exit.Said) || exit.Said == "" || notRunning(exit.Said)) {
		return allocation{}, errUnknownForm
	}
	if err != nil {
		return allocation{}, err
	}
	return parseResources(text, node)
}

// unknownForm tells a scontrol that is older than slurmd, or that lacks the
// plugin for JSON, by what it says.
func unknownForm(said string) bool {
	return slices.ContainsFunc([]string{"unrecognized option", "invalid entity", "plugin", "data_parser", "serializer"},
		func(sign string) bool { return strings.Contains(said, sign) })
}

// notRunning tells a job that was canceled or requeued while its prolog runs: of
// that the text says that it has nothing, and this question that it is none.
func notRunning(said string) bool { return strings.Contains(strings.ToLower(said), "not running") }

type resources struct {
	Nodes  []nodeResources `json:"nodes"`
	Errors []struct {
		Description string `json:"description"`
		Error       string `json:"error"`
	} `json:"errors"`
}

type nodeResources struct {
	Node field[string]       `json:"node"`
	Gres field[[]gresLayout] `json:"gres"`

	Cores any `json:"core_bitmap"` // a text like "0-3"; nothing hangs on it but what is nearest
}

type gresLayout struct {
	Name  field[string] `json:"name"`
	Type  string        `json:"type"` // empty or null if it has none
	Count field[uint64] `json:"count"`
	Index field[string] `json:"index"` // null if the GRES has no files
}

// field is a key's value, and whether the key is there at all: what another form of
// the answer calls otherwise must not be read as nothing.
type field[T any] struct {
	value T
	there bool
}

// UnmarshalJSON is called for a key that is there, null or not.
func (f *field[T]) UnmarshalJSON(data []byte) error {
	f.there = true
	return json.Unmarshal(data, &f.value)
}

// allocation returns the node's layouts as the older text has them.
func (n nodeResources) allocation() (allocation, error) {
	if !n.Gres.there {
		return allocation{}, fmt.Errorf("unknown form: node %s has no gres", hint.Clip(n.Node.value))
	}
	parts := make([]string, len(n.Gres.value))
	for i, g := range n.Gres.value {
		if g.Name.value == "" || !g.Count.there || !g.Index.there {
			return allocation{}, fmt.Errorf("unknown form: a gres of node %s lacks name, count or index", hint.Clip(n.Node.value))
		}
		parts[i] = g.String()
	}
	cores, _ := n.Cores.(string)
	return allocation{gres: strings.Join(parts, ","), cores: cores}, nil
}

// String returns the layout as the older text has it.
func (g gresLayout) String() string {
	name := g.Name.value
	if g.Type != "" {
		name += ":" + g.Type
	}
	if g.Index.value != "" {
		return fmt.Sprintf("%s:%d(IDX:%s)", name, g.Count.value, g.Index.value)
	}
	return fmt.Sprintf("%s(CNT:%d)", name, g.Count.value)
}

// parseResources returns what a job has on a node, in what the question answers.
func parseResources(text, node string) (allocation, error) {
	var r resources
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return allocation{}, fmt.Errorf("read its JSON: %w", err)
	}
	if len(r.Errors) > 0 {
		said := r.Errors[0].Description + r.Errors[0].Error
		if notRunning(said) {
			return allocation{}, errUnknownForm
		}
		return allocation{}, fmt.Errorf("it says %q", hint.Clip(said))
	}
	// scontrol prints this, too, of a job that does not run any more, and where slurmctld
	// did not answer (Slurm 25.11, src/scontrol/info_job.c).
	if len(r.Nodes) == 0 {
		return allocation{}, errUnknownForm
	}
	for _, n := range r.Nodes {
		switch {
		case !n.Node.there:
			return allocation{}, errors.New("unknown form: it does not say which node")
		case n.Node.value == node:
			return n.allocation()
		}
	}
	return allocation{}, notHere("node %s is not in it", node)
}
