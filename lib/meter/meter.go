// Package meter tells the kernel's time from our own: how long a run waited for
// what it asked of the kernel. It is for the trace, and changes nothing.
package meter

import (
	"sync/atomic"
	"time"
)

// Meter adds up requests, from any number of threads. A nil Meter does not.
type Meter struct {
	requests atomic.Int64
	nanos    atomic.Int64
}

// Reading is what a meter shows.
type Reading struct {
	Requests int64
	Kernel   time.Duration
}

// Request counts a request that begins now and ends with a call of the function returned.
func (m *Meter) Request() (end func()) {
	if m == nil {
		return func() {}
	}
	start := time.Now()
	return func() {
		m.requests.Add(1)
		m.nanos.Add(int64(time.Since(start)))
	}
}

// Read reads the meter.
func (m *Meter) Read() Reading {
	if m == nil {
		return Reading{}
	}
	return Reading{m.requests.Load(), time.Duration(m.nanos.Load())}
}

// Since is what was added since another reading.
func (m *Meter) Since(r Reading) Reading {
	now := m.Read()
	return Reading{now.Requests - r.Requests, now.Kernel - r.Kernel}
}
