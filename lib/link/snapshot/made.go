package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/link"
	"gresnet/lib/link/tc"
)

// Made is an interface that has other kinds of queueing disciplines by the kernel's choice than
// it had: the kernel makes those that net.core.default_qdisc names when they are made.
type Made struct {
	Name       string
	Have, Want []string
	index      int
	settings   Settings
}

// MadeOtherwise returns those among the interface and what stands on it. One that is down has
// none until it is brought up.
func (c *Conn) MadeOtherwise(index int, want Settings) (list []Made, err error) {
	if len(want.Made) > 0 {
		have, err := tc.ReadQdiscs(c.Route, index, want.Up)
		if err != nil {
			return nil, fmt.Errorf("read the queueing disciplines of %s: %w", want.Name, err)
		}
		if len(have.Made) > 0 && !slices.Equal(have.Made, want.Made) {
			list = append(list, Made{want.Name, have.Made, want.Made, index, want})
		}
	}
	for _, child := range want.Children {
		i, err := c.findChild(index, child)
		if errors.Is(err, link.ErrNotFound) {
			continue // Differences names it
		}
		if err != nil {
			return nil, err
		}
		more, err := c.MadeOtherwise(i.Index, child.Settings)
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

func (m Made) String() string {
	return fmt.Sprintf("%s has %s for the kernel's own queueing discipline, it had %s", m.Name, strings.Join(m.Have, " and "), strings.Join(m.Want, " and "))
}

// Remake has the kernel choose again.
func (c *Conn) Remake(m Made) error {
	defer c.Anew()()
	return tc.RemakeQdiscs(c.Route, m.index, m.Name, m.settings.Up, m.settings.Qdiscs)
}
