package cli

import (
	"fmt"
	"strings"

	"gresnet/lib/hint"
	"gresnet/lib/job"
	"gresnet/lib/sign"
)

// SignOf returns the sign of a run that ended with err.
func (w *World) SignOf(j job.Job, err error) sign.Sign {
	s := sign.Sign{Exit: exitCode(err), Job: j.ID, Run: j.Run, Caller: sign.FindCaller()}
	if err != nil {
		id, _ := hint.Cut(w.hint(err))
		s.Why = strings.ReplaceAll(err.Error(), "\n", "; ") + hint.Tag(id)
	}
	return s
}

// Sign warns of a sign that could not be left: the run counts all the same.
func (w *World) Sign(err error) {
	if err != nil {
		fmt.Fprintf(w.Stderr, "%s: warning: %s\n", w.name, err)
	}
}
