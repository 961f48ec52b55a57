package opened

import (
	"context"
	"errors"

	"gresnet/lib/lease/host"
	"gresnet/lib/state/lock"
	"gresnet/lib/words/hint"
)

// UnderLock calls f while nobody else touches the job's lease. If the lease is gone then, so is the
// lock's file.
func UnderLock(ctx context.Context, h *host.Host, job uint32, f func() error) error {
	held, err := lock.Job(ctx, h.State.Locks(), job)
	if err != nil {
		return h.State.Fault(err)
	}
	return under(held, h, job, f)
}

// IfFree calls f like UnderLock, unless somebody touches the lease just now: lock.ErrHeld.
func IfFree(h *host.Host, job uint32, f func() error) error {
	held, err := lock.TryJob(h.State.Locks(), job)
	if errors.Is(err, lock.ErrHeld) {
		return err
	}
	if err != nil {
		return h.State.Fault(err)
	}
	return under(held, h, job, f)
}

func under(held *lock.File, h *host.Host, job uint32, f func() error) error {
	err := f()
	if !h.State.Lease(job).Exists() {
		return hint.Join(err, held.Remove())
	}
	return hint.Join(err, held.Close())
}
