package lease

import (
	"context"

	"gresnet/lib/step"
)

// dropOverlay removes the overlay of a job without a lease, if there is one.
func (n *Host) dropOverlay(ctx context.Context, id uint32) error {
	l, done, err := n.LookFor(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	if err := new(step.Overlay).Undo(l.World); err != nil {
		return remains(err)
	}
	return nil
}
