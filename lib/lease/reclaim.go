package lease

import (
	"context"
	"slices"

	"gresnet/lib/gres"
	"gresnet/lib/host"
	"gresnet/lib/job"
)

// reclaim has what a job is to have if it is free given back by those who are about
// to: an epilog that runs, or a job that is gone. Who lives keeps it, and the job is
// passed over.
func (n *Host) reclaim(ctx context.Context, j job.Job, wants []gres.Want) error {
	if !slices.ContainsFunc(wants, func(w gres.Want) bool { return w.IfFree }) {
		return nil
	}
	t, err := n.Table().Read()
	if err != nil {
		return err
	}
	m, err := n.Mapped(&t)
	if err != nil {
		return err
	}
	for _, by := range gres.PassedOver(wants, m, host.HoldersIn(&t)) {
		if by.Holder.Quarantined != "" {
			continue
		}
		if err := n.waitForHolder(ctx, j.ID, by, false); err != nil {
			n.Notice(j.ID, "does without %s of job %d: %s", by.Entry.HCA.Name, by.Holder.Job, err)
		}
	}
	return nil
}
