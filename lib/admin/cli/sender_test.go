package cli

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"gresnet/lib/base/poll"
)

func TestAJournalThatTakesNoLinesIsWaitedForTwoSecondsARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var taken []string
		reads := make(chan bool)
		s := &sender{send: func(text string, _ journal.Priority, _ map[string]string) error {
			<-reads
			taken = append(taken, text)
			return nil
		}}
		begun := time.Now()
		for _, line := range []string{"waits", "is lost", "is lost, too"} {
			if err := s.Send(line, journal.PriInfo, nil); !errors.Is(err, errNotTaken) {
				t.Errorf("%s: %v, wanted %v", line, err, errNotTaken)
			}
		}
		if took := time.Since(begun); took != poll.Journal {
			t.Errorf("the lines took %s, wanted %s", took, poll.Journal)
		}
		close(reads) // journald is awake again
		synctest.Wait()
		if err := s.Send("after it", journal.PriInfo, nil); err != nil {
			t.Error(err)
		}
		if want := []string{"waits", "after it"}; !slices.Equal(taken, want) {
			t.Errorf("the journal has %q, wanted %q", taken, want)
		}
		stuck := make(chan bool)
		defer close(stuck)
		s.send = func(string, journal.Priority, map[string]string) error { <-stuck; return nil }
		begun = time.Now()
		_ = s.Send("waits again", journal.PriInfo, nil)
		if took := time.Since(begun); took != poll.JournalLine {
			t.Errorf("it was waited for %s more, wanted %s", took, poll.JournalLine)
		}
	})
}

func TestWhatTheJournalSaysOfALineIsSaid(t *testing.T) {
	refused := errors.New("no such socket")
	s := &sender{send: func(string, journal.Priority, map[string]string) error { return refused }}
	if err := s.Send("a line", journal.PriInfo, nil); err != refused {
		t.Errorf("%v, wanted %v", err, refused)
	}
}
