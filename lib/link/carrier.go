package link

import (
	"time"

	"gresnet/lib/clock"
)

// LacksCarrier tells an interface that is up and has not the carrier that it had: without
// one the kernel takes no IPv6 addresses and marks routes dead. If it is settling, the kernel would give it a link local
// address after all others.
func (c *Conn) LacksCarrier(i Interface, want Own) bool {
	return want.Up && want.Running && i.Up && (!i.Running || i.Settling) && !c.standsOnDead(i)
}

// AwaitCarrier waits until the interface has the carrier that it had, or its time is over.
func (c *Conn) AwaitCarrier(index int, want Own) (i Interface, err error) {
	begun := time.Now()
	for ; ; clock.Sleep(begun, 2*time.Millisecond) {
		if i, err = c.Get(index); err != nil {
			return Interface{}, err
		}
		if !c.LacksCarrier(i, want) || c.Waits.Over(c.Waits.until(i.ID, begun)) {
			c.Waits.Waited(i.ID, i.Running, time.Since(begun))
			return i, nil
		}
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
