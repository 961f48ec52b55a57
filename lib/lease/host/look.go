package host

import (
	"context"

	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netns"
	"gresnet/lib/words/poll"
)

// Look reads the node for a job. It changes nothing and needs no lock.
type Look struct {
	Host      *Host
	World     *world.World
	lifelines []lifeline // where the node itself must be reached, and what it must reach
	unknown   []error    // what cannot be told of these: then no interface moves
	storage   []storage  // what the node has from elsewhere; nil: nobody has looked
}

// LookFor opens a look at the node for a job, which has a lease or has none.
func (n *Host) LookFor(ctx context.Context, job uint32) (l *Look, done func(), err error) {
	host, err := netns.Current()
	if err != nil {
		return nil, nil, err
	}
	w := &world.World{Given: world.Given{
		Host: host, Sys: n.Sys, Dev: n.Dev, Dir: n.State.Lease(job), Job: job, Budget: poll.Budget{Context: ctx}, Table: n.Table(), Locks: n.State.Locks(),
	}}
	return &Look{Host: n, World: w}, func() { w.Close(); host.Close() }, nil
}
