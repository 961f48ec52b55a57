package link

import (
	"time"

	"gresnet/lib/base/poll"
)

// lacksCarrier tells an interface that is up and has not the carrier that it had: without
// one the kernel takes no IPv6 addresses and marks routes dead. If it is settling, the kernel would give it a link local
// address after all others.
func (c *Conn) lacksCarrier(i Interface, want Own) bool {
	return want.Up && want.Running && i.Up && (!i.Running || i.Settling) && !c.standsOnDead(i)
}

// AwaitCarrier waits until the interface has the carrier that it had, or its time is over.
func (c *Conn) AwaitCarrier(index int, want Own) (i Interface, err error) {
	_, err = c.Budget.UntilOne(func() poll.Bound { return poll.Carrier.Of(i.ID) }, func() (bool, error) {
		i, err = c.Get(index)
		return !c.lacksCarrier(i, want), err
	})
	if err != nil {
		return Interface{}, err
	}
	c.sawCarrier(i)
	return i, nil
}

// LeaveCarrier tells whether an interface lacks its carrier. Its time begins then, and AwaitCarrier waits
// for what is left of it.
func (c *Conn) LeaveCarrier(i Interface, want Own) bool {
	if c.lacksCarrier(i, want) {
		c.Budget.Begin(poll.Carrier.Of(i.ID), time.Now())
		return true
	}
	c.sawCarrier(i)
	return false
}

// sawCarrier ends the time of an interface that has its carrier.
func (c *Conn) sawCarrier(i Interface) {
	if i.Running {
		c.Budget.Forget(poll.Carrier.Of(i.ID))
	}
}

// standsOnDead tells a child of what has no carrier: it gets none before that.
func (c *Conn) standsOnDead(i Interface) bool {
	if i.Running || i.Parent == 0 || i.ID.Kind == "veth" {
		return false
	}
	parent, err := c.Get(i.Parent)
	return err == nil && !parent.Running
}
