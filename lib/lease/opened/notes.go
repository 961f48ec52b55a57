package opened

import (
	"time"

	"gresnet/lib/lease/step"
)

// notes counts how often the run wrote the journal, and how long that took: each time is short.
type notes struct {
	count int
	took  time.Duration
}

// write writes into the journal by a function, and counts that.
func (l *Lease) write(f func() error) error {
	start := l.Host.Now()
	err := f()
	l.notes.count++
	l.notes.took += l.Host.Now().Sub(start)
	return err
}

// Note writes a step into the journal.
func (l *Lease) Note(s step.Step) error {
	return l.write(func() error { return l.Journal.Note(s.Kind(), s) })
}
