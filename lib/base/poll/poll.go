// Package poll is the one way to wait: look, pause, look again.
//
// How long for what, and why, is one table (bounds.go). A Budget is what one run may still wait. It
// is one value, which is passed to everything that waits.
package poll

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Bound is a row of the table: how long something is waited for, and how often it is looked at.
type Bound struct {
	// Name names what is waited for. Bounds with one name share a Sum.
	Name string
	// Most is the longest time of one wait. Zero: as long as the run has.
	Most time.Duration
	// Once has Most count from when the run first waited for this, or for this subject (Of): all later
	// waits have what is left of it. So a run waits for the slowest of many, and not for the sum.
	Once bool
	// Sum is how long a run waits in vain, in all. Zero: nothing bounds that.
	Sum time.Duration
	// Half leaves half of the time that the run has to what comes later.
	Half bool
	// Least is the shortest pause between two looks.
	Least time.Duration
	// Longest has each pause be twice the one before, up to this.
	Longest time.Duration
	// Scatter makes each pause up to twice as long, by chance: nodes that begin together ask one server.
	Scatter bool

	subject any
}

// Of returns the bound for one of several subjects, each of which has its own time.
func (b Bound) Of(subject any) Bound {
	b.subject = subject
	return b
}

// slowest is the longest pause of a bound without Longest.
const slowest = 50 * time.Millisecond

// Pause returns the time until the next look, after some looks in a time: an eighth of that time,
// between Least and 50 ms. Dozens of runs that look all the time take the processor from what they
// wait for.
func (b Bound) Pause(looks int, waited time.Duration) time.Duration {
	pause := max(min(waited/8, slowest), b.Least)
	if b.Longest > 0 {
		pause = min(b.Least<<min(looks-1, 30), b.Longest)
	}
	if b.Scatter {
		pause += rand.N(pause)
	}
	return pause
}

// Budget is what one run may still wait. The zero value, or nil, bounds no run: each wait has its own
// time.
type Budget struct {
	// Context ends all waits; nil: only time does.
	Context context.Context

	begun  map[clock]time.Time      // since when the run waits for what has its time once
	wasted map[string]time.Duration // waited in vain, by name
}

// clock identifies what has its time once.
type clock struct {
	name    string
	subject any
}

// Look looks once at what is waited for, and tells whether it is there. An error ends the wait.
type Look func() (done bool, err error)

// Until looks until a look is done or fails, and tells whether one was done. It gives up when the
// bound or the run is over, but only after a look that ended later than that: a slow machine does
// not miss what came in time.
func (b *Budget) Until(bound Bound, look Look) (came bool, err error) {
	return b.UntilOne(func() Bound { return bound }, look)
}

// UntilOne is Until where a look decides which bound holds.
func (b *Budget) UntilOne(bound func() Bound, look Look) (came bool, err error) {
	return b.UntilHeard(bound, func(pause time.Duration) error {
		b.sleep(pause)
		return nil
	}, look)
}

// UntilHeard is UntilOne with another pause, which something that is heard can end early.
func (b *Budget) UntilHeard(bound func() Bound, hear func(most time.Duration) error, look Look) (came bool, err error) {
	begun := time.Now()
	for looks := 1; ; looks++ {
		done, err := look()
		if done || err != nil {
			return done, err
		}
		row, now := bound(), time.Now()
		end := b.end(row, begun, now)
		if !now.Before(end) || b.err() != nil {
			b.waste(row, now.Sub(begun))
			return false, nil
		}
		if run, bounded := b.deadline(); bounded && run.Before(end) {
			end = run
		}
		pause := min(row.Pause(looks, now.Sub(begun)), end.Sub(now))
		if err := hear(max(pause, time.Millisecond)); err != nil {
			return false, err
		}
	}
}

// Try tries until the error is not again any more, and returns the last one.
func (b *Budget) Try(bound Bound, again error, try func() error) (err error) {
	_, _ = b.Until(bound, func() (bool, error) { // its only errors are the looks', and these have none
		err = try()
		return !errors.Is(err, again), nil
	})
	return err
}

// end returns when a wait is over that has begun.
func (b *Budget) end(bound Bound, begun, now time.Time) time.Time {
	if bound.Most == 0 {
		return now.Add(time.Hour) // the run's context ends it
	}
	if b == nil {
		return begun.Add(bound.Most)
	}
	end := begun.Add(bound.Most)
	if bound.Once {
		b.Begin(bound, now)
		end = b.begun[bound.clock()].Add(bound.Most)
	}
	if bound.Sum == 0 && !bound.Half {
		return end
	}
	all, wasted := cmp.Or(bound.Sum, bound.Most), b.wasted[bound.Name]
	if run, bounded := b.deadline(); bounded && bound.Half {
		all = min(all, (run.Sub(begun)+wasted)/2)
	}
	if last := begun.Add(max(0, all-wasted)); last.Before(end) {
		end = last
	}
	return end
}

func (b Bound) clock() clock { return clock{b.Name, b.subject} }

// Begin begins the time of what has it once, unless it has begun.
func (b *Budget) Begin(bound Bound, now time.Time) {
	if b == nil {
		return
	}
	if b.begun == nil {
		b.begun = map[clock]time.Time{}
	}
	if _, begun := b.begun[bound.clock()]; !begun {
		b.begun[bound.clock()] = now
	}
}

// Forget ends the time of what has it once, because it came, or begins again.
func (b *Budget) Forget(bound Bound) {
	if b != nil {
		delete(b.begun, bound.clock())
	}
}

// Waits tells whether the time of what has it once has begun.
func (b *Budget) Waits(bound Bound) bool {
	if b == nil {
		return false
	}
	_, begun := b.begun[bound.clock()]
	return begun
}

// WaitsForAny tells whether that of any subject has.
func (b *Budget) WaitsForAny(bound Bound) bool {
	if b == nil {
		return false
	}
	for c := range b.begun {
		if c.name == bound.Name {
			return true
		}
	}
	return false
}

// IsOver tells whether the time of what has it once is over, whatever the run's is.
func (b *Budget) IsOver(bound Bound) bool {
	return b.Waits(bound) && !time.Now().Before(b.begun[bound.clock()].Add(bound.Most))
}

// waste takes down a wait in vain.
func (b *Budget) waste(bound Bound, took time.Duration) {
	if b == nil || bound.Sum == 0 {
		return
	}
	if b.wasted == nil {
		b.wasted = map[string]time.Duration{}
	}
	b.wasted[bound.Name] += took
}

func (b *Budget) err() error {
	if b == nil || b.Context == nil {
		return nil
	}
	return b.Context.Err()
}

func (b *Budget) deadline() (time.Time, bool) {
	if b == nil || b.Context == nil {
		return time.Time{}, false
	}
	return b.Context.Deadline()
}

// sleep pauses, but not past the end of the run.
func (b *Budget) sleep(pause time.Duration) {
	ctx := context.Background()
	if b != nil && b.Context != nil {
		ctx = b.Context
	}
	Hear[struct{}](ctx, nil, pause)
}

// MoveBy gives a move half of the time that the run has left. Moves of busy devices with
// firmware take a second, and wait for those of other jobs. A move that takes longer than this
// never ends, and other HCAs need their time, too.
func MoveBy(ctx context.Context) time.Time {
	end, bounded := ctx.Deadline()
	if !bounded {
		return time.Now().Add(Move)
	}
	return time.Now().Add(time.Until(end) / 2)
}
