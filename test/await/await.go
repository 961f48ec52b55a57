// Package await waits in tests. A slow machine takes long, so no wait has a bound of a fixed time; and a test
// whose condition never comes fails with a sentence, and leaves the tests after it their time. It is for tests
// only.
package await

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// begun is when the test's program began.
var begun = time.Now()

// Most returns how long a test waits for what may never come: an eighth of the time from the program's begin to
// its deadline, and never more than nine tenths of the time that is left. In the VM a program has no deadline: there it
// is ten minutes of a usual machine.
func Most(t testing.TB) time.Duration {
	if d, has := t.(interface{ Deadline() (time.Time, bool) }); has {
		if end, ok := d.Deadline(); ok {
			return min(end.Sub(begun)/8, time.Until(end)*9/10)
		}
	}
	return Slow(10 * time.Minute)
}

// Slow returns a time that is enough on a usual machine, made longer by how slow this VM is,
// which test/vm/guest-init has measured.
func Slow(usual time.Duration) time.Duration {
	slow, err := strconv.Atoi(os.Getenv("GRESNET_SLOW"))
	if err != nil || slow < 1 {
		return usual
	}
	return time.Duration(slow) * usual
}

// Until waits until a condition holds.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	most := Most(t)
	for end := time.Now().Add(most); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s", most.Round(time.Second), what)
		}
	}
}

// Value waits for a value of a channel.
func Value[T any](t testing.TB, what string, from <-chan T) (value T) {
	t.Helper()
	most := Most(t)
	select {
	case value = <-from:
	case <-time.After(most):
		t.Fatalf("after %s still not: %s", most.Round(time.Second), what)
	}
	return value
}
