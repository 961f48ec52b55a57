// Package clock has the time that a boot's records are kept in, and the pace of waits.
package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// SinceBoot returns the time since the node was booted, sleep included. Nobody can set
// this clock, and it is the same in every namespace of the node's.
func SinceBoot() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err) // clock_gettime(2): it cannot fail for this clock
	}
	return time.Duration(t.Nano())
}

// most is the longest time between two looks.
const most = 50 * time.Millisecond

// Sleep sleeps between two looks at what has been waited for since a time: an eighth of
// that, but least at least. Dozens of runs that look all the time take the processor from
// what they wait for.
func Sleep(since time.Time, least time.Duration) { time.Sleep(between(time.Since(since), least)) }

func between(waited, least time.Duration) time.Duration { return min(max(waited/8, least), most) }
