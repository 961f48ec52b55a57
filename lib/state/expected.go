package state

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// EveryJob stands for all jobs.
const EveryJob = "*"

// Lasting is where setup says for all boots what Expected says for one (spank/absent.c reads both).
const Lasting = "/var/lib/gresnet/setup/expected"

// maxExpected is what the plugin reads of a list (spank/record.h, RECORD_SIZE).
const maxExpected = 1023

// words returns a list that the plugin can read whole. One too long stands for all jobs.
func words(gres []string) string {
	if text := strings.Join(gres, ","); len(text) <= maxExpected {
		return text
	}
	return EveryJob
}

// Expect says that each job of this node leaves a record, and that a job which asks for one of these GRES fails
// without its record; EveryJob stands for all jobs. The time of the link says since when. A list that changes
// keeps the time: prologs leave records whatever the list says, so a change is about no job that has begun.
func (d Dir) Expect(gres []string, since time.Time) error {
	return expect(d.Expected(), d.MakeRecords, gres, since)
}

// ExpectForGood says so for all boots, in the name Lasting or one like it, whose folder is there.
func ExpectForGood(name string, gres []string, since time.Time) error {
	return expect(name, func() error { return nil }, gres, since)
}

func expect(name string, folder func() error, gres []string, since time.Time) error {
	want := words(gres)
	if have, at, ok := target(name); ok {
		if have == want {
			return nil
		}
		since = at
	}
	if err := link(folder, want, name, since); err != nil {
		return fmt.Errorf("say that jobs leave records: %w", err)
	}
	return nil
}

// ExpectedSince returns from when on jobs are held to records that nobody was held to before: since a job
// began, whose prolog this is, or since setup, whichever is earlier; a job without a start, or none,
// counts from now on.
func ExpectedSince(lasting string, start time.Time) time.Time {
	now := time.Now()
	if info, err := os.Lstat(lasting); err == nil && info.ModTime().Before(now) {
		now = info.ModTime()
	}
	if !start.IsZero() && start.Before(now) {
		return start
	}
	return now
}

// ForgetExpected ends what Expect and ExpectForGood say.
func ForgetExpected(names ...string) error {
	for _, name := range names {
		if err := Remove(name); err != nil {
			return fmt.Errorf("say that jobs leave no records: %w", err)
		}
	}
	return nil
}
