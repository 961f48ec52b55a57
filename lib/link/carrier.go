package link

import (
	"time"

	"gresnet/lib/clock"
)

// lacksCarrier tells an interface that is up and has not the carrier that it had: without
// one the kernel takes no IPv6 addresses and marks routes dead. If it is settling, the kernel would give it a link local
// address after all others.
func (c *Conn) lacksCarrier(i Interface, want Settings) bool {
	return want.Up && want.Running && i.Up && (!i.Running || i.Settling) && !c.standsOnDead(i)
}

// awaitCarrier waits until the interface has the carrier that it had, or its time is over.
func (c *Conn) awaitCarrier(index int, want Settings) (i Interface, err error) {
	begun := time.Now()
	for ; ; clock.Sleep(begun, 2*time.Millisecond) {
		if i, err = c.Get(index); err != nil {
			return Interface{}, err
		}
		if !c.lacksCarrier(i, want) || c.Waits.over(c.Waits.until(i.ID, begun)) {
			c.Waits.waited(i.ID, i.Running, time.Since(begun))
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

// AwaitLate gives an interface, and what stands on it, what is left of their time,
// where they got their settings without a carrier.
func (c *Conn) AwaitLate(index int, want Settings) error {
	if c.Waits == nil || len(c.Waits.late) == 0 {
		return nil
	}
	return c.awaitLate(index, want)
}

func (c *Conn) awaitLate(index int, want Settings) error {
	defer c.anew()()
	if _, err := c.awaitCarrier(index, want); err != nil {
		return err
	}
	for _, child := range want.Children {
		i, err := c.findChild(index, child)
		if err != nil {
			continue // Differences names it
		}
		if err := c.awaitLate(i.Index, child.Settings); err != nil {
			return err
		}
	}
	return nil
}
