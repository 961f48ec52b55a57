package link

import (
	"time"

	"gresnet/lib/pace"
)

// awaitCarrier waits until the interface, which was just looked at, has the carrier that
// it had: without one the kernel takes no IPv6 addresses and marks routes dead.
func (c *Conn) awaitCarrier(i Interface, want Settings) (err error) {
	if !want.Up || !want.Running || c.standsOnDead(i) {
		return nil
	}
	begun := time.Now()
	for end := c.Waits.until(i.ID, begun); !i.Running && !c.Waits.over(end); pace.Sleep(begun, 2*time.Millisecond) {
		if i, err = c.Get(i.Index); err != nil {
			return err
		}
	}
	c.Waits.waited(i.ID, i.Running, time.Since(begun))
	return nil
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
	i, err := c.Get(index)
	if err != nil {
		return err
	}
	if err := c.awaitCarrier(i, want); err != nil {
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
