// Package pace spaces out looks at what is waited for.
package pace

import "time"

// most is the longest time between two looks.
const most = 50 * time.Millisecond

// Sleep sleeps between two looks at what has been waited for since a time: an eighth of
// that, but least at least. Dozens of runs that look all the time take the processor from
// what they wait for.
func Sleep(since time.Time, least time.Duration) { time.Sleep(between(time.Since(since), least)) }

func between(waited, least time.Duration) time.Duration { return min(max(waited/8, least), most) }
