package state

import (
	"fmt"
	"strings"
	"time"
)

// Seen lists the records that are there.
type Seen struct {
	Prolog, Epilog *Record // of the last ones; nil: there was none since the boot
	Failed         *Record // of the last epilog that failed
	Missed         *Missed
}

// Missed is what the plugin found when it wanted a record: it has refused the step if the job asked
// for HCAs.
type Missed struct {
	Text string // the job, and what it had instead
	At   time.Time
}

// ReadRecords reads the records. What does not read counts as absent.
func (d Dir) ReadRecords() Seen {
	s := Seen{Prolog: readRecord(d.LastProlog()), Epilog: readRecord(d.LastEpilog()), Failed: readRecord(d.FailedEpilog())}
	if text, at, ok := target(d.Missed()); ok {
		s.Missed = &Missed{Text: text, At: at}
	}
	return s
}

// MissedSince returns what the plugin missed after scripts changed, if no prolog has run since.
func (s Seen) MissedSince(changed time.Time) *Missed {
	if m := s.Missed; m != nil && m.At.After(changed) && (s.Prolog == nil || m.At.After(s.Prolog.At)) {
		return m
	}
	return nil
}

// came tells whether slurmd has come to gresnet-prolog or gresnet-epilog after scripts changed.
func (s Seen) came(program string, changed time.Time) bool {
	last := s.last(program)
	return last != nil && last.Caller.Slurmd && last.At.After(changed)
}

// CameThrough tells whether slurmd has come to it through a script after that changed. A script that ends with exec
// leaves no name: slurmd itself has the exit code then.
func (s Seen) CameThrough(program, script string, changed time.Time) bool {
	if !s.came(program, changed) {
		return false
	}
	by := s.last(program).Caller.Script
	return by == "" || by == word(script)
}

// last returns the record of the last run of gresnet-prolog or gresnet-epilog.
func (s Seen) last(program string) *Record {
	if strings.HasSuffix(program, "prolog") {
		return s.Prolog
	}
	return s.Epilog
}

// Unheard says of an epilog that failed after scripts changed, and whose exit code slurmd may never
// have had; nothing if there is none. If slurmd itself ran the epilog, it had the code. If a script
// did, only what comes next tells: slurmd drains a node whose epilog fails, and no job begins there.
func (s Seen) Unheard(changed time.Time) string {
	f, next := s.Failed, s.Prolog
	if f == nil || f.Caller.Script == "" || f.At.Before(changed) || next == nil || !next.Caller.Slurmd || next.At.Before(f.At) {
		return ""
	}
	why := f.Why
	if why != "" {
		why = " (" + why + ")"
	}
	return fmt.Sprintf("gresnet-epilog of job %d ended with %d at %s%s, and job %d has begun since: slurmd drains a node whose Epilog fails, so %s kept that exit code to itself, or somebody has resumed the node",
		f.Job, f.Exit, f.At.Format(time.DateTime), why, next.Job, f.Caller.Script)
}
