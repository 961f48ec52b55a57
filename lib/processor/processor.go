// Package processor has a program run on one processor. A prolog does one thing at a time: threads
// that look for more to do are in its way.
//
// It imports nothing but runtime, so Go initializes it before nearly all others (The Go Programming
// Language Specification, Package initialization). Later, each processor that goes has to give back
// the memory that it has set aside by then, which takes a tenth of a millisecond.
package processor

import "runtime"

func init() { runtime.GOMAXPROCS(1) }
