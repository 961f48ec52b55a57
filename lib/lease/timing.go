package lease

import (
	"fmt"
	"time"

	"gresnet/lib/step"
)

// Timing is time that no step took: the looks before the first of them, waits
// between, the journal.
type Timing struct {
	What string
	Took time.Duration
}

func (n *Host) reportTiming(s Timing) {
	if n.Spent != nil {
		n.Spent(s)
	}
}

// stopwatch measures from now on.
func (n *Host) stopwatch() stopwatch { return stopwatch{n, n.Now()} }

type stopwatch struct {
	node  *Host
	start time.Time
}

func (c stopwatch) stop(what string) {
	c.node.reportTiming(Timing{what, c.node.Now().Sub(c.start)})
}

// notes is how often the journal was written and how long that took, all together:
// each time is short.
type notes struct {
	count int
	took  time.Duration
}

// write writes into the journal by a function.
func (l *open) write(f func() error) error {
	start := l.node.Now()
	err := f()
	l.notes.count++
	l.notes.took += l.node.Now().Sub(start)
	return err
}

// note writes a step into the journal.
func (l *open) note(s step.Step) error {
	return l.write(func() error { return l.journal.Note(s.Kind(), s) })
}

func (t notes) timing() Timing {
	return Timing{What: fmt.Sprintf("write the lease's journal, %d times; part of what is above", t.count), Took: t.took}
}
