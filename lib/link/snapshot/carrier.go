package snapshot

import "gresnet/lib/base/poll"

// AwaitLate gives an interface, and what stands on it, what is left of their time,
// where they got their settings without a carrier.
func (c *Conn) AwaitLate(index int, want Settings) error {
	if !c.Budget.WaitsForAny(poll.Carrier) {
		return nil
	}
	return c.awaitLate(index, want)
}

func (c *Conn) awaitLate(index int, want Settings) error {
	defer c.AskAgain()()
	if _, err := c.AwaitCarrier(index, want.Own); err != nil {
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
