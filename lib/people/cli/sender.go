package cli

import (
	"context"
	"errors"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"gresnet/lib/words/poll"
)

// errNotTaken is a line that the systemd journal did not take.
var errNotTaken = errors.New("the systemd journal does not take it")

// sender puts lines into the systemd journal, and waits for it no longer than it may:
// journald that is stopped, or stuck at its disk, reads nothing, and once some lines
// have nobody to read them, whoever sends the next one sleeps.
type sender struct {
	send    func(text string, p journal.Priority, fields map[string]string) error
	waits   time.Duration // in vain, until now
	pending chan error    // the result of a line that still waits; nil: none does
}

func (s *sender) Send(text string, p journal.Priority, fields map[string]string) error {
	if s.pending != nil {
		select {
		case <-s.pending:
			s.pending = nil
		default:
			return errNotTaken // nor would it take this one
		}
	}
	sent := make(chan error, 1)
	go func() { sent <- s.send(text, p, fields) }()
	patience := max(poll.Journal-s.waits, poll.JournalLine)
	err, taken := poll.Hear(context.Background(), sent, patience)
	if !taken {
		s.waits += patience
		s.pending = sent
		return errNotTaken
	}
	return err
}
