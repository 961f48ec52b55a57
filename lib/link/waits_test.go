package link

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// A clock that only waits move, for a run in which no carrier comes unless it is said to.
type run struct {
	Waits
	now time.Time
}

func (r *run) wait(name string, needs time.Duration) (came bool) {
	id := ID{Address: name}
	begun := r.now
	end := r.until(id, begun)
	if came = needs > 0 && !begun.Add(needs).After(end); came {
		end = begun.Add(needs)
	}
	if end.After(r.now) {
		r.now = end
	}
	r.waited(id, came, r.now.Sub(begun))
	return came
}

const dead = 0

func TestARunWaitsForAnyNumberOfDeadPortsNoLongerThanForThree(t *testing.T) {
	for _, ports := range []int{1, 2, 3, 8, 64} {
		r := &run{now: time.Now()}
		begun := r.now
		// Undo, Verify, and Verify once more when there were differences.
		for range 3 {
			for port := range ports {
				if name := fmt.Sprint(port); r.wait(name, dead) || !r.Late(ID{Address: name}) {
					t.Errorf("port %d of %d has a carrier", port, ports)
				}
			}
		}
		if took := r.now.Sub(begun); took > lostTimeout+carrierTimeout || took < carrierTimeout {
			t.Errorf("%d dead ports took %s", ports, took)
		}
	}
}

func TestADeadPortKeepsNoOtherFromItsTime(t *testing.T) {
	r := &run{now: time.Now()}
	r.wait("dead", dead)
	for port := range 7 {
		if name := fmt.Sprint(port); !r.wait(name, carrierTimeout) || r.Late(ID{Address: name}) {
			t.Errorf("port %d was not waited for", port)
		}
	}
	if r.lost != carrierTimeout {
		t.Errorf("%s are lost, wanted %s: one that comes is free", r.lost, carrierTimeout)
	}
}

func TestAPortThatWasNotWaitedForHasItsTimeInTheEnd(t *testing.T) {
	r := &run{now: time.Now()}
	for _, name := range []string{"one", "two", "three"} {
		r.wait(name, dead)
	}
	if r.wait("healthy", carrierTimeout) {
		t.Error("it was waited for at once, with no time left")
	}
	for _, name := range []string{"one", "two", "three"} {
		r.wait(name, dead)
	}
	left := r.late[ID{Address: "healthy"}].Sub(r.now)
	if left > 0 && !r.wait("healthy", left) || r.now.Before(r.late[ID{Address: "healthy"}]) {
		t.Errorf("it was not waited for in the end, with %s left", left)
	}
}

func TestAPortThatIsBroughtUpAgainHasItsTimeAnew(t *testing.T) {
	r := &run{now: time.Now()}
	r.wait("port", dead)
	r.raised(ID{Address: "port"})
	if !r.wait("port", carrierTimeout) {
		t.Error("it was not waited for")
	}
}

func TestARunWaitsForTakenNamesNoLongerThanForOne(t *testing.T) {
	var w Waits
	now := time.Now()
	begun := now
	for range 64 {
		for _, timeout := range []time.Duration{renameTimeout, newTimeout} {
			end := w.name(now, timeout)
			if end.Before(now) {
				t.Fatalf("a wait ends %s before it begins", now.Sub(end))
			}
			w.nameless(end.Sub(now))
			now = end
		}
	}
	if took := now.Sub(begun); took != newTimeout {
		t.Errorf("64 names that others keep took %s, wanted %s", took, newTimeout)
	}
}

func TestWhatIsWaitedInVainLeavesHalfOfTheRunsTime(t *testing.T) {
	for _, all := range []time.Duration{time.Second, 10 * time.Second, 25 * time.Second, time.Minute} {
		begun := time.Now()
		ctx, cancel := context.WithDeadline(t.Context(), begun.Add(all))
		defer cancel()
		r := &run{Waits: Waits{Context: ctx}, now: begun}
		for port := range 64 {
			end := r.name(r.now, newTimeout)
			r.nameless(end.Sub(r.now))
			r.now = end
			if took := r.now.Sub(begun); took > min(newTimeout, all/2) {
				t.Errorf("a run of %s has waited %s for %d names", all, took, port+1)
			}
		}
		if took := r.now.Sub(begun); took != min(newTimeout, all/2) {
			t.Errorf("a run of %s has waited %s for names, wanted half of it or %s", all, took, newTimeout)
		}
		begun = r.now
		left := all - min(newTimeout, all/2)
		for range 3 {
			for port := range 64 {
				r.wait(fmt.Sprint(port), dead)
			}
		}
		if took := r.now.Sub(begun); took > min(lostTimeout+carrierTimeout, left/2) || took == 0 {
			t.Errorf("a run that has %s left has waited %s for carriers", left, took)
		}
	}
}
