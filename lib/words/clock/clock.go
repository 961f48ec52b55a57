// Package clock has the time that a boot's records are kept in.
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
