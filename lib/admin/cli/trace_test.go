package cli

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"gresnet/lib/lease/event"
)

func TestTheTraceSaysHowLongEachStepTook(t *testing.T) {
	var said strings.Builder
	w := &World{Stderr: &said, began: time.Now(), startCPU: 2 * time.Millisecond}
	tr := w.startTrace()
	tr.line("wait for udev", 12345*time.Microsecond)
	tr.event(event.Event{Action: "do link ib0", Took: 31 * time.Millisecond})
	tr.event(event.Event{Notice: "the lease is taken"})
	tr.end()
	want := `      took
    2.0 ms  start the program (CPU time; more passed if the node is busy)
    X ms  read the command line and the configuration
   12.3 ms  wait for udev
   31.0 ms  do link ib0
            the lease is taken
    X ms  all since the program's first line; X ms of CPU time
`
	// How long this test itself takes is not known.
	var got []string
	for _, line := range strings.SplitAfter(said.String(), "\n") {
		if strings.Contains(line, "command line") || strings.Contains(line, "first line") {
			line = regexp.MustCompile(`^ *[0-9.]+ ms`).ReplaceAllString(line, "    X ms")
			line = regexp.MustCompile(`-?[0-9.]+ ms (of)`).ReplaceAllString(line, "X ms $1")
		}
		got = append(got, line)
	}
	if text := strings.Join(got, ""); text != want {
		t.Errorf("it said\n%swanted\n%s", text, want)
	}
}
