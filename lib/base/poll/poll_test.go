package poll

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheLongerSomethingIsWaitedForTheRarerItIsLookedAt(t *testing.T) {
	least := Bound{Least: 2 * time.Millisecond}
	for waited, want := range map[time.Duration]time.Duration{
		0:                      least.Least,
		16 * time.Millisecond:  least.Least,
		160 * time.Millisecond: 20 * time.Millisecond,
		time.Minute:            slowest,
	} {
		if got := least.Pause(7, waited); got != want {
			t.Errorf("after %s it pauses %s, wanted %s", waited, got, want)
		}
	}
	for looks, want := range map[int]time.Duration{1: 20 * time.Millisecond, 2: 40 * time.Millisecond, 6: 640 * time.Millisecond, 7: time.Second, 1 << 20: time.Second} {
		if got := Holder.Pause(looks, time.Hour); got != want {
			t.Errorf("after %d looks it pauses %s, wanted %s", looks, got, want)
		}
	}
	for range 100 {
		if got := Slurmctld.Pause(1, 0); got < Slurmctld.Least || got >= 2*Slurmctld.Least {
			t.Errorf("it asks slurmctld again after %s", got)
		}
	}
}

// waitFor waits for what comes at a time, or at none, and returns whether it was there.
func waitFor(t *testing.T, b *Budget, bound Bound, comes time.Time) bool {
	t.Helper()
	came, err := b.Until(bound, func() (bool, error) { return !comes.IsZero() && !time.Now().Before(comes), nil })
	if err != nil {
		t.Error(err)
	}
	if came && bound.Once {
		b.Forget(bound)
	}
	return came
}

var never time.Time

// wants compares how long waits took with how long they are to take, give or take some looks.
func wants(t *testing.T, what string, begun time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(begun); took < want || took > want+want/50 {
		t.Errorf("%s took %s, wanted %s", what, took, want)
	}
}

func TestARunWaitsForAnyNumberOfDeadPortsNoLongerThanForOne(t *testing.T) {
	for _, ports := range []int{1, 2, 3, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			b, begun := new(Budget), time.Now()
			for port := range ports {
				b.Begin(Carrier.Of(port), begun)
			}
			// Undo, Verify, and Verify once more when there were differences.
			for range 3 {
				for port := range ports {
					if waitFor(t, b, Carrier.Of(port), never) || !b.Waits(Carrier.Of(port)) {
						t.Errorf("port %d of %d has a carrier", port, ports)
					}
				}
			}
			wants(t, fmt.Sprintf("%d dead ports", ports), begun, Carrier.Most)
		})
	}
}

func TestARunWaitsForAnyNumberOfPortsThatTrainNoLongerThanForTheSlowest(t *testing.T) {
	for _, ports := range []int{1, 2, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			b, begun := new(Budget), time.Now()
			for port := range ports {
				b.Begin(Carrier.Of(port), begun)
			}
			for port := range ports {
				comes := begun.Add(Carrier.Most * time.Duration(port+1) / time.Duration(ports))
				if !waitFor(t, b, Carrier.Of(port), comes) || b.Waits(Carrier.Of(port)) {
					t.Errorf("port %d of %d was not waited for", port, ports)
				}
			}
			if b.WaitsForAny(Carrier) {
				t.Error("one is still waited for")
			}
			wants(t, fmt.Sprintf("%d ports", ports), begun, Carrier.Most)
		})
	}
}

func TestADeadPortKeepsNoOtherFromItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, begun := new(Budget), time.Now()
		for port := range 8 {
			b.Begin(Carrier.Of(port), begun)
		}
		waitFor(t, b, Carrier.Of(0), never)
		for port := 1; port < 8; port++ {
			if !waitFor(t, b, Carrier.Of(port), begun.Add(Carrier.Most)) {
				t.Errorf("port %d was not waited for", port)
			}
		}
	})
}

func TestPortsThatAreBroughtUpOneAfterAnotherAreWaitedForInVainNoLongerThanTheirSum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, begun := new(Budget), time.Now()
		for port := range 64 {
			waitFor(t, b, Carrier.Of(port), never)
		}
		wants(t, "they", begun, Carrier.Sum)
	})
}

func TestAPortThatIsBroughtUpAgainHasItsTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := new(Budget)
		waitFor(t, b, Carrier.Of("port"), never)
		b.Forget(Carrier.Of("port"))
		if !waitFor(t, b, Carrier.Of("port"), time.Now().Add(Carrier.Sum-Carrier.Most-time.Second)) {
			t.Error("it was not waited for")
		}
	})
}

func TestARunWaitsForTakenNamesNoLongerThanForOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, begun := new(Budget), time.Now()
		for range 64 {
			waitFor(t, b, Rename, never)
			waitFor(t, b, NewName, never)
		}
		wants(t, "64 names that others keep", begun, newName)
	})
}

func TestWhatIsWaitedInVainLeavesHalfOfTheRunsTime(t *testing.T) {
	for _, all := range []time.Duration{time.Second, 10 * time.Second, 25 * time.Second, time.Minute, 10 * time.Minute} {
		for _, bound := range []Bound{NewName, Carrier, Udev} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), all)
				defer cancel()
				b, begun := &Budget{Context: ctx}, time.Now()
				waits := 64
				if bound.Sum == 0 {
					waits = 1
				}
				for n := range waits {
					waitFor(t, b, bound.Of(n), never)
				}
				wants(t, fmt.Sprintf("%s of a run of %s", bound.Name, all), begun, min(max(bound.Most, bound.Sum), all/2))
			})
		}
	}
}

func TestWhatARunHasOnceIsOverForAllLaterWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, begun := new(Budget), time.Now()
		if b.IsOver(Ports) {
			t.Error("its time is over before it began")
		}
		for range 3 {
			waitFor(t, b, Ports, never)
		}
		wants(t, "three dead ports", begun, Ports.Most)
		if !b.IsOver(Ports) || b.IsOver(Gone) {
			t.Error("the wrong time is over")
		}
	})
}

// A look that takes longer than the bound has its answer counted, and there is one at least.
func TestASlowMachineDoesNotMissWhatCameInTime(t *testing.T) {
	for _, bound := range []Bound{Carrier, Rename, Ports, Udev, GIDs, Dying, Hidden, Driver, VFs} {
		synctest.Test(t, func(t *testing.T) {
			over, cancel := context.WithCancel(t.Context())
			cancel()
			for _, b := range []*Budget{nil, {}, {Context: over}} {
				came, err := b.Until(bound, func() (bool, error) { time.Sleep(time.Minute); return true, nil })
				if !came || err != nil {
					t.Errorf("%s: a slow look for it does not count: %t, %v", bound.Name, came, err)
				}
			}
			// It is stopped while it pauses, and what is waited for comes meanwhile.
			begun, stopped := time.Now(), false
			came, err := new(Budget).UntilHeard(func() Bound { return bound },
				func(time.Duration) error { stopped = true; time.Sleep(time.Hour); return nil },
				func() (bool, error) { return stopped && time.Since(begun) > time.Minute, nil })
			if !came || err != nil {
				t.Errorf("%s: what came is not seen: %t, %v", bound.Name, came, err)
			}
		})
	}
}

func TestTheEndOfTheRunEndsEachWait(t *testing.T) {
	for _, bound := range []Bound{Carrier, NewName, Ports, Udev, GIDs, Hidden, Gone, Driver, VFs, Mode, Slurmctld} {
		synctest.Test(t, func(t *testing.T) {
			const all = 100 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), all)
			defer cancel()
			begun := time.Now()
			if waitFor(t, &Budget{Context: ctx}, bound, never) {
				t.Errorf("%s came", bound.Name)
			}
			if took := time.Since(begun); took > all {
				t.Errorf("%s was waited for %s", bound.Name, took)
			}
		})
	}
}

func TestAFailureEndsAWaitAtOnce(t *testing.T) {
	want, passing := errors.New("no"), errors.New("busy")
	if came, err := new(Budget).Until(Ports, func() (bool, error) { return false, want }); came || err != want {
		t.Errorf("%t, %v", came, err)
	}
	tries := 0
	err := (*Budget)(nil).Try(IPoIBMode, passing, func() error {
		if tries++; tries == 3 {
			return want
		}
		return fmt.Errorf("set: %w", passing)
	})
	if tries != 3 || err != want {
		t.Errorf("%d tries, %v", tries, err)
	}
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := new(Budget).Try(IPoIBMode, passing, func() error { return passing }); err != passing {
			t.Error(err)
		}
		wants(t, "tries in vain", begun, IPoIBMode.Most)
	})
}

func TestWhatDoesNotAnswerIsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan bool)
		defer close(stuck)
		begun := time.Now()
		if _, came := Within(t.Context(), SlurmConf, func() bool { return <-stuck }); came {
			t.Error("it answers")
		}
		wants(t, "it", begun, SlurmConf)
		over, cancel := context.WithCancel(t.Context())
		cancel()
		begun = time.Now()
		if _, came := Within(over, SlurmConf, func() bool { return <-stuck }); came || time.Since(begun) != 0 {
			t.Errorf("after the run's end it took %s", time.Since(begun))
		}
		if answer, came := Within(t.Context(), SlurmConf, func() int { return 7 }); !came || answer != 7 {
			t.Errorf("%d, %t", answer, came)
		}
		tries := 1
		for begun = time.Now(); Again(tries); tries++ {
		}
		if took := time.Since(begun); tries != mostTries || took != 190*time.Millisecond {
			t.Errorf("%d tries took %s", tries, took)
		}
	})
}
