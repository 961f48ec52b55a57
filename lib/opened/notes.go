package lease

import (
	"fmt"
	"time"

	"gresnet/lib/host"
	"gresnet/lib/step"
)

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

func (t notes) timing() host.Timing {
	return host.Timing{What: fmt.Sprintf("write the lease's journal, %d times; part of what is above", t.count), Took: t.took}
}
