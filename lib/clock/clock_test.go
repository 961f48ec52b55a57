package clock

import (
	"testing"
	"time"
)

func TestTheLongerSomethingIsWaitedForTheRarerItIsLookedAt(t *testing.T) {
	const least = 2 * time.Millisecond
	for waited, want := range map[time.Duration]time.Duration{
		0:                      least,
		16 * time.Millisecond:  least,
		160 * time.Millisecond: 20 * time.Millisecond,
		time.Minute:            most,
	} {
		if got := between(waited, least); got != want {
			t.Errorf("after %s it sleeps %s, wanted %s", waited, got, want)
		}
	}
}
