package main

import (
	"fmt"
	"log"
	"runtime/debug"
	"sync"
	"time"
)

// big is held while any device of this program works, for one may put packets into another's
// queues.
var big sync.Mutex

// A fault is the panic of a device whose driver has asked for what cannot be.
type fault struct {
	memory *memory // of the device's guest; nil if it is that of the device that is at work
	text   string
}

func (f fault) Error() string { return f.text }

// alone does work of a device while no other works.
func (f *firmware) alone(work func()) {
	big.Lock()
	defer big.Unlock()
	f.contain(work)
}

// contain does work of a device. A fault in it is a fatal fault of the firmware whose guest caused it, as
// rubbish from a driver may be on a card, and the end of nothing else: the program has other devices.
func (f *firmware) contain(work func()) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case fault:
			culprit := f
			for _, other := range f.wire() {
				if other.memory == cause.memory {
					culprit = other
				}
			}
			log.Printf("%s: fault: %s", culprit.name, cause.text)
			culprit.fail()
		default:
			log.Printf("%s: fault: %v\n%s", f.name, cause, debug.Stack())
			f.fail()
		}
	}()
	work()
}

// later does work after a while, unless the device has begun again since.
func (f *firmware) later(after time.Duration, work func()) {
	generation := f.generation
	time.AfterFunc(after, func() {
		f.alone(func() {
			if f.generation == generation {
				work()
			}
		})
	})
}

// unknown logs once that the driver has asked for something that this firmware does not know.
func (f *firmware) unknown(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	if !f.told[text] {
		f.told[text] = true
		log.Printf("%s: unknown %s", f.name, text)
	}
}
