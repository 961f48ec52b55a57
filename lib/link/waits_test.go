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

// raise brings ports up that do not have their carriers yet.
func (r *run) raise(ports int) {
	for port := range ports {
		r.Lacks(ID{Address: fmt.Sprint(port)}, r.now)
	}
}

// wait waits for a port whose carrier comes at a time, or at none.
func (r *run) wait(name string, comes time.Time) (came bool) {
	id := ID{Address: name}
	begun := r.now
	end := r.until(id, begun)
	if came = !comes.IsZero() && !comes.After(end); came {
		end = comes
	}
	if end.After(r.now) {
		r.now = end
	}
	r.Waited(id, came, r.now.Sub(begun))
	return came
}

var never time.Time

func TestARunWaitsForAnyNumberOfDeadPortsNoLongerThanForOne(t *testing.T) {
	for _, ports := range []int{1, 2, 3, 8, 64} {
		r := &run{now: time.Now()}
		begun := r.now
		r.raise(ports)
		// Undo, Verify, and Verify once more when there were differences.
		for range 3 {
			for port := range ports {
				if name := fmt.Sprint(port); r.wait(name, never) || !r.Late(ID{Address: name}) {
					t.Errorf("port %d of %d has a carrier", port, ports)
				}
			}
		}
		if took := r.now.Sub(begun); took != carrierTimeout {
			t.Errorf("%d dead ports took %s, wanted %s", ports, took, carrierTimeout)
		}
	}
}

func TestARunWaitsForAnyNumberOfPortsThatTrainNoLongerThanForTheSlowest(t *testing.T) {
	for _, ports := range []int{1, 2, 8, 64} {
		r := &run{now: time.Now()}
		begun := r.now
		r.raise(ports)
		for port := range ports {
			comes := begun.Add(carrierTimeout * time.Duration(port+1) / time.Duration(ports))
			if name := fmt.Sprint(port); !r.wait(name, comes) || r.Late(ID{Address: name}) {
				t.Errorf("port %d of %d was not waited for", port, ports)
			}
		}
		if took := r.now.Sub(begun); took != carrierTimeout {
			t.Errorf("%d ports, the slowest of which needs %s, took %s", ports, carrierTimeout, took)
		}
	}
}

func TestADeadPortKeepsNoOtherFromItsTime(t *testing.T) {
	r := &run{now: time.Now()}
	begun := r.now
	r.raise(8)
	r.wait("0", never)
	for port := 1; port < 8; port++ {
		if name := fmt.Sprint(port); !r.wait(name, begun.Add(carrierTimeout)) || r.Late(ID{Address: name}) {
			t.Errorf("port %d was not waited for", port)
		}
	}
}

func TestPortsThatAreBroughtUpOneAfterAnotherAreWaitedForInVainNoLongerThanForLostTimeout(t *testing.T) {
	r := &run{now: time.Now()}
	begun := r.now
	for port := range 64 {
		r.wait(fmt.Sprint(port), never)
	}
	if took := r.now.Sub(begun); took != lostTimeout {
		t.Errorf("they took %s, wanted %s", took, lostTimeout)
	}
}

func TestAPortThatIsBroughtUpAgainHasItsTimeAnew(t *testing.T) {
	r := &run{now: time.Now()}
	r.wait("port", never)
	r.raised(ID{Address: "port"})
	if !r.wait("port", r.now.Add(lostTimeout-carrierTimeout)) {
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
				r.wait(fmt.Sprint(port), never)
			}
		}
		if took := r.now.Sub(begun); took > min(lostTimeout, left/2) || took == 0 {
			t.Errorf("a run that has %s left has waited %s for carriers", left, took)
		}
	}
}
