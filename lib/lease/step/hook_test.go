package step_test

import (
	"errors"
	"testing"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/step"
)

func TestAFailureIsTheJobsOrTheNodesAsTheSiteSays(t *testing.T) {
	for _, fault := range []string{config.FaultJob, config.FaultNode} {
		w := &world.World{Given: world.Given{Job: 7, Budget: poll.Budget{Context: t.Context()}}}
		h := &step.Hook{Ready: "/usr/no-such-program", Leave: "/usr/no-such-program", Fault: fault}
		var refusal *gres.Refusal
		if err := h.Do(w); hint.ID(err) != "GN643" || errors.As(err, &refusal) != (fault == config.FaultJob) {
			t.Errorf("%s: ready: %T, %v", fault, err, err)
		}
		var leave step.LeaveError
		if err := h.Undo(w); hint.ID(err) != "GN643" || !errors.As(err, &leave) || leave.Fault != fault {
			t.Errorf("%s: leave: %T, %v", fault, err, err)
		}
		if err := errors.Join((&step.Hook{Fault: fault}).Do(w), (&step.Hook{Fault: fault}).Undo(w)); err != nil {
			t.Errorf("%s: without programs: %v", fault, err)
		}
	}
}
