package host

import (
	"time"
)

// Timing is time that no step took: the looks before the first of them, waits
// between, the journal.
type Timing struct {
	What string
	Took time.Duration
}

// ReportTiming tells whoever wants to know.
func (n *Host) ReportTiming(s Timing) {
	if n.Timed != nil {
		n.Timed(s)
	}
}

// Stopwatch begins to measure.
func (n *Host) Stopwatch() Stopwatch { return Stopwatch{n, n.Now()} }

// Stopwatch measures what no step takes.
type Stopwatch struct {
	node  *Host
	start time.Time
}

// Stop tells what the time was taken by.
func (c Stopwatch) Stop(what string) {
	c.node.ReportTiming(Timing{what, c.node.Now().Sub(c.start)})
}
