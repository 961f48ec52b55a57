package gres_test

import (
	"errors"
	"fmt"
	"testing"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/test/sitetest"
)

// Whatever users use, jobs have and the job asks, by whichever source: it gets nothing that
// is used, and where it is short of what users use, that is no fault of the node's.
func TestWhatUsersUseNoJobGetsAndIsNeverTheNodesFault(t *testing.T) {
	var wants []gres.Want
	for _, source := range []string{"gpu", "node", "policy", "program", "scontrol"} {
		for count := 1; count <= 4; count++ {
			wants = append(wants, gres.Want{Gres: "nic", Count: count, Source: source})
		}
		for index := range 4 {
			wants = append(wants, gres.Want{Gres: "nic", Indices: []int{index}, Source: source},
				gres.Want{Gres: "nic", Indices: []int{index}, Source: source, IfFree: true})
		}
	}
	refused := 0
	const free, job, user = 0, 1, 2
	for state := range 81 { // each of four HCAs is in one of three
		at := func(i int) int { return state / []int{1, 3, 9, 27}[i] % 3 }
		held := func(id node.ID) (gres.Holder, bool) {
			for i := range 4 {
				if sitetest.HCA(i).ID != id {
					continue
				}
				switch at(i) {
				case job:
					return gres.Holder{Job: 2}, true
				case user:
					return gres.Holder{User: "keeper (pid 7) of user 1000"}, true
				}
			}
			return gres.Holder{}, false
		}
		users := false
		for i := range 4 {
			users = users || at(i) == user
		}
		for _, w := range wants {
			what := fmt.Sprintf("state %d, %s by %s, if free: %v", state, w, w.Source, w.IfFree)
			entries, err := gres.Choose([]gres.Want{w}, typed(), held, nil)
			for _, e := range entries {
				if by, is := held(e.HCA.ID); is {
					t.Errorf("%s: chose %s: %s", what, e, by)
				}
			}
			var taken *gres.Taken
			if !errors.As(err, &taken) {
				continue
			}
			for _, by := range taken.By {
				if by.Holder.User != "" {
					t.Errorf("%s: a user is waited for", what)
				}
			}
			var refusal *gres.Refusal
			short := users && len(w.Indices) == 0 || len(w.Indices) == 1 && at(w.Indices[0]) == user
			if short && !errors.As(err, &refusal) {
				t.Errorf("%s: is the node's fault: %v", what, err)
			}
			if short {
				refused++
				if refusal != nil && refusal.Reason != gres.UsedByUsers {
					t.Errorf("%s: refused for %s", what, refusal.Reason)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}
