package cli

import (
	"fmt"
	"strings"

	"gresnet/lib/state/sign"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/job"
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

// Sign warns of a sign that a run which ended with err could not leave: the run counts all the same.
// A run that failed says itself why, and that is mostly why there is no sign.
func (w *World) Sign(err, unsigned error) {
	if err == nil && unsigned != nil {
		fmt.Fprintf(w.Stderr, "%s: warning: %s\n", w.name, unsigned)
	}
}
