// Package processor readies Go's runtime for a program that does one thing at a time: it runs on one
// processor, since threads that look for more to do are in its way, and has a stack that need not grow.
//
// It imports nothing but runtime, so Go initializes it before nearly all others (The Go Programming
// Language Specification, Package initialization). Later, each processor that goes has to return
// the memory that it has set aside by then, which takes a tenth of a millisecond.
package processor

import "runtime"

func init() {
	runtime.GOMAXPROCS(1)
	var needed [24 << 10]byte
	grow(&needed)
}

// grow does nothing: for who calls it the stack grows once. Otherwise it doubles four times, and each
// time all frames are looked up and copied.
//
//go:noinline
func grow(*[24 << 10]byte) {}
