package link

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gresnet/lib/hint"
)

// Made is an interface that has other kinds of queueing disciplines by the kernel's choice than
// it had: the kernel makes those that net.core.default_qdisc names when they are made.
type Made struct {
	Name       string
	Have, Want []string
	index      int
	settings   Settings
}

// MadeOtherwise are those among the interface and what stands on it. One that is down has
// none until it is brought up.
func (c *Conn) MadeOtherwise(index int, want Settings) (list []Made, err error) {
	if len(want.Made) > 0 {
		var have Settings
		if err := c.readQdiscs(index, want.Up, &have); err != nil {
			return nil, fmt.Errorf("read the queueing disciplines of %s: %w", want.Name, err)
		}
		if len(have.Made) > 0 && !slices.Equal(have.Made, want.Made) {
			list = append(list, Made{want.Name, have.Made, want.Made, index, want})
		}
	}
	for _, child := range want.Children {
		i, err := c.findChild(index, child)
		if errors.Is(err, ErrNotFound) {
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
	defer c.anew()()
	have, err := c.qdisc(m.index)
	if err == nil && have == nil {
		// What the kernel has chosen cannot be deleted, but another can, in its place.
		other := attribute(tcmsg(0, atRoot), unix.TCA_KIND, []byte("pfifo\x00"))
		if err = c.giveQdisc(m.index, other); err == nil {
			have = other
		}
	}
	if err != nil {
		return fmt.Errorf("replace the kernel's own queueing discipline of %s: %w", m.Name, err)
	}
	return hint.Join(c.deleteQdisc(m.index, have, m.Name), c.applyQdisc(m.index, m.settings))
}
