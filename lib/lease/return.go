package lease

import (
	"errors"
	"slices"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
)

// returnParts returns all parts of the node's own, and then looks at them again when udev is
// idle. While an HCA is not back, returnParts marks none of its entries undone: returning the HCA may
// make its interface again.
func (l *Lease) returnParts(entries []Entry) []error {
	if len(entries) == 0 {
		return nil
	}
	h := returning{lease: l, stuck: map[node.ID]bool{}}
	steps, up := stepsOf(entries), firstOfRank(entries, step.AllUp)
	for i := 0; i < len(steps); {
		if i == up {
			h.finish()
		}
		now := steps[i:]
		h.await(h.moving.before(now[0]))
		i += h.undo(now)
	}
	h.finish()
	return append(h.failed, l.lookAgain(entries)...)
}

// returning says how far a rollback is with returning HCAs.
type returning struct {
	lease  *Lease
	moving flight
	stuck  map[node.ID]bool // HCAs that do not come back
	failed []error
}

// undo undoes the first of some steps, or leaves moves in flight that begin with it. It returns how many these are.
func (h *returning) undo(steps []step.Step) (n int) {
	// A move of an RDMA device that fails may still go on, and no move of its interface may
	// overlap with it.
	skip := func(s step.Step) bool { return h.stuck[s.HCA()] || h.lease.World.Gone[pieceOf(s)] }
	if skip(steps[0]) {
		return 1
	}
	if n := slices.IndexFunc(steps, skip); n > 0 {
		steps = steps[:n]
	}
	moving, err := h.lease.begin(undo, steps)
	if len(moving) == 0 {
		h.record(steps[0], err)
	}
	h.moving = append(h.moving, moving...)
	return max(1, len(moving))
}

// await waits for moves.
func (h *returning) await(some flight) {
	for _, m := range some {
		h.record(m.RDMA, m.end())
	}
}

// finish does what the steps left to do when all interfaces are up.
func (h *returning) finish() {
	h.await(h.moving.all())
	for s, err := range h.lease.finish() {
		h.record(s, err)
	}
}

// record records how an undo ended. An HCA counts as returned although another
// has its name, or its settings do not come back: then the rollback still gives its device nodes their access.
func (h *returning) record(s world.Action, err error) {
	errs := h.lease.failure(s, err)
	h.failed = append(h.failed, errs...)
	_, settings := s.(*step.Settings)
	if len(errs) > 0 && !settings && !errors.Is(errs[0], link.ErrNameTaken) && !errors.Is(errs[0], rdma.ErrNameTaken) {
		h.stuck[s.HCA()] = true
	}
}

// lookAgain waits for udev, verifies all that is back, and marks it undone.
func (l *Lease) lookAgain(entries []Entry) (failed []error) {
	waited := l.Host.Time("wait for udev")
	if l.again {
		if err := l.World.RenewUdev(hcasOf(entries)); err != nil {
			l.Host.Notice(l.World.Job, "%s", err)
		}
	}
	if err := l.World.AwaitUdev(l.World.Udev); err != nil {
		failed = append(failed, err)
	}
	waited()
	err := l.World.OnHost(func(v *scan.View) error {
		return v.Link.Once(func() error {
			v.Link.About(interfaces(v, entries)...)
			failed = append(failed, l.verify(v, entries)...)
			return nil
		})
	})
	if err != nil {
		return append(failed, err) // nothing is verified, so nothing is marked
	}
	for _, s := range entries {
		if _, away := l.World.Away[s.HCA()]; !away && !l.World.Gone[pieceOf(s.Step)] {
			l.markUndone(s)
			l.tellTraffic(s)
		}
	}
	return failed
}

// interfaces returns the indices of the interfaces whose settings a lease has, as far as they were seen.
func interfaces(v *scan.View, entries []Entry) (indices []int) {
	for _, s := range entries {
		settings, is := s.Step.(*step.Settings)
		if !is {
			continue
		}
		if index, seen := v.Seen(settings.Interface); seen {
			indices = append(indices, index)
		}
	}
	return indices
}

// verify looks again at all that is back.
func (l *Lease) verify(v *scan.View, entries []Entry) (failed []error) {
	for _, s := range entries {
		if l.World.Gone[pieceOf(s.Step)] {
			continue
		}
		if _, away := l.World.Away[s.HCA()]; away {
			failed = append(failed, l.restrictAgain(v, s)...)
			continue
		}
		if v, is := s.Step.(step.Verifier); is {
			failed = append(failed, l.failure(s.Step, l.timed(verify, s.Step, func() error { return hint.Join(v.Verify(l.World), l.faults(s.Step)) }))...)
		}
	}
	return failed
}

// restrictAgain restores the access to the device nodes of an HCA that jobs do not get, although it is back: another
// interface has the name of its own, say. udev may have opened the nodes since.
func (l *Lease) restrictAgain(v *scan.View, s Entry) []error {
	access, is := s.Step.(*step.Access)
	if !is {
		return nil
	}
	if _, err := v.Find(access.ID); err != nil {
		return nil // it is not back
	}
	return l.failure(access, l.timed(verify, access, func() error { return access.Undo(l.World) }))
}
