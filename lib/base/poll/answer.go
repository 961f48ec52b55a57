package poll

import (
	"context"
	"time"
)

// Hear returns what comes from a channel, or that nothing came in time.
func Hear[T any](ctx context.Context, from <-chan T, most time.Duration) (answer T, came bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case answer = <-from:
		return answer, true
	case <-ctx.Done():
	case <-timer.C:
	}
	return answer, false
}

// Within returns what f returns, or that it did not return in time. f is left behind then: it asks what
// may not answer for ever, such as a file system whose server is away.
func Within[T any](ctx context.Context, most time.Duration, f func() T) (answer T, came bool) {
	returned := make(chan T, 1)
	go func() { returned <- f() }()
	return Hear(ctx, returned, most)
}

// Every calls f again and again, until it returns false.
func Every(pause time.Duration, f func() (goesOn bool)) {
	for f() {
		time.Sleep(pause)
	}
}

// Settle pauses once: more of what has begun to come comes at once.
func Settle(pause time.Duration) { time.Sleep(pause) }

// Again tells whether something is to be tried once more that others disturb, after so many tries, and
// pauses before. How long the tries take does not count: what a slow machine disturbs twenty times in a
// row is disturbed for ever.
func Again(tries int) bool {
	if tries >= mostTries {
		return false
	}
	time.Sleep(time.Duration(tries) * time.Millisecond)
	return true
}

// mostTries pauses for 190 ms in all.
const mostTries = 20
