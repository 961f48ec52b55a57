package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/kernel/proc"
	"gresnet/lib/lease/event"
	"gresnet/test/seed"
)

// What users name comes out of a program in three ways: on its two streams, and in the systemd journal.
func TestWhatUsersNameLeavesTheProgramWithoutWhatSteersATerminal(t *testing.T) {
	pieces := []string{"cat", " ", "\x1b[2J", "\n", "\r", "\u202e", "\u009b", "\x9b", "\x7f", "ü"}
	for range 2000 {
		name := ""
		for range 1 + seed.IntN(5) {
			name += pieces[seed.IntN(len(pieces))]
		}
		w, lines := listening()
		var stdout, stderr bytes.Buffer
		w.Stdout, w.Stderr, w.Args = &stdout, &stderr, []string{"gresnet-prolog"}
		w.Run("gresnet-prolog", func() error {
			p := proc.Process{PID: 7, Name: name}
			fmt.Fprintf(w.Stdout, "%s uses it\n", p)
			fmt.Fprintf(w.Stderr, "warning: %s\n", name)
			w.log(config.LogSteps, event.Event{Kind: event.Remark, Notice: name})
			w.log(config.LogSteps, event.Event{Kind: event.StepFailed, Action: "do link " + name, Err: errors.New(name)})
			return hint.With(fmt.Errorf("look at %s", name), "GN001 end "+p.String())
		})
		if strings.Count(stdout.String(), "\n") != 1 {
			t.Fatalf("the name %q has lines of its own: %q", name, stdout.String())
		}
		all := []string{stdout.String(), stderr.String()}
		for _, l := range *lines {
			all = append(all, l.text)
			for _, value := range l.fields {
				all = append(all, value)
			}
		}
		for i, text := range all {
			for _, r := range text {
				if !unicode.IsPrint(r) && (i > 1 || r != '\n') || r == unicode.ReplacementChar {
					t.Fatalf("of the name %q there comes %q", name, text)
				}
			}
		}
	}
}
