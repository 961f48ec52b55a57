package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// run is one run of tests, and what came of it.
type run struct {
	out     io.Writer       // for people; the closing line goes to stdout
	ctx     context.Context // done when somebody ends the run
	what    string
	folders []string
	start   time.Time
	limit   time.Duration
	enough  time.Duration // no VM begins later, if set
	jobs    int

	elsewhere int // tests, counted for each lane, that are not of its class

	mu      sync.Mutex
	passed  int
	failed  []failure
	skipped map[string]int // by reason
	spent   []spent
	boots   time.Duration
}

type failure struct {
	name string
	log  []string
}

type spent struct {
	on   string
	time time.Duration
}

func (r *run) left() time.Duration { return max(r.limit-time.Since(r.start), time.Minute) }

// during runs f, notes how long it took, and sends what it returned.
func (r *run) during(name string, f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() {
		begin := time.Now()
		err := f()
		r.took(name, time.Since(begin))
		ended <- err
	}()
	return ended
}

func (r *run) took(name string, t time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t >= time.Second {
		r.spent = append(r.spent, spent{name, t})
	}
}

func (r *run) pass() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.passed++
}

func (r *run) skip(reason string, tests int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped[reason] += tests
}

func (r *run) fail(name string, log []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, failure{name, log})
}

func (r *run) booted(after time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.boots += after
}

// report prints what came of the run, and returns the line by which CI counts tests.
func (r *run) report() string {
	for _, f := range r.failed {
		r.say("log of %s", f.name)
		for _, line := range f.log[max(0, len(f.log)-60):] {
			fmt.Fprintln(r.out, "   ", line)
		}
	}
	skipped := 0
	for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
		r.say("skipped: %d × %s", r.skipped[reason], reason)
		skipped += r.skipped[reason]
	}
	var times strings.Builder
	for _, s := range r.spent {
		fmt.Fprintf(&times, "%s %s, ", s.on, s.time.Round(time.Second))
	}
	r.say("time: %sof the VMs' time %s to boot; %s in all", &times, r.boots.Round(time.Second), time.Since(r.start).Round(time.Second))
	// Who sees the last lines of a run alone sees what failed.
	for _, f := range r.failed {
		why := ""
		if len(f.log) > 0 {
			why = ": " + strings.TrimSpace(f.log[0])
		}
		r.say("failed: %s%s", f.name, why)
	}
	r.say("%s: %d passed, %d failed, %d skipped, %d not in this class", r.what, r.passed, len(r.failed), skipped, r.elsewhere)
	return fmt.Sprintf("tests: %d passed, %d failed, %d skipped", r.passed, len(r.failed), skipped)
}
