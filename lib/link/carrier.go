package link

import (
	"context"
	"time"

	"gresnet/lib/pace"
)

const (
	// carrierTimeout is the time that an interface which had a carrier has to get
	// it again, from when it is brought up: a port trains its link anew after some
	// moves. One whose cable was pulled meanwhile gets its settings without it.
	carrierTimeout = 5 * time.Second
	// lostTimeout bounds what one run waits for carriers that do not come.
	lostTimeout = 2 * carrierTimeout
)

// Carriers is how long one run waits for carriers, of however many interfaces.
// What is waited for one that comes is free: a healthy port needs its time. What
// is waited in vain is not, since a switch that is off takes the carriers of all
// ports, and Slurm waits for the epilog. When lostTimeout is used up, interfaces
// are brought up and get their settings one right after the other, without
// a wait, and so the times that they have run at once: AwaitLate waits for what is
// left of them, carrierTimeout for all together. Both in sum are the most that a
// run waits in vain.
//
// Without one (nil) each interface has its time, and nothing bounds the sum.
type Carriers struct {
	// Context ends all waits; nil: only time does.
	Context context.Context

	lost time.Duration    // waited in vain
	late map[ID]time.Time // what has no carrier yet, and until when it is to be waited for
}

// Late tells an interface that had a carrier and was not seen with one yet.
func (w *Carriers) Late(id ID) bool {
	if w == nil {
		return false
	}
	_, late := w.late[id]
	return late
}

// until is the end of a wait for an interface that begins now.
func (w *Carriers) until(id ID, now time.Time) time.Time {
	if w == nil {
		return now.Add(carrierTimeout)
	}
	left := lostTimeout - w.lost
	end, again := w.late[id]
	if again {
		left += carrierTimeout
	} else {
		if w.late == nil {
			w.late = map[ID]time.Time{}
		}
		end = now.Add(carrierTimeout)
		w.late[id] = end
	}
	if last := now.Add(left); last.Before(end) {
		return last
	}
	return end
}

// waited takes down how a wait ended.
func (w *Carriers) waited(id ID, came bool, took time.Duration) {
	switch {
	case w == nil:
	case came:
		delete(w.late, id)
	default:
		w.lost += took
	}
}

// raised tells of an interface that was just brought up: its time begins anew.
func (w *Carriers) raised(id ID) {
	if w != nil {
		delete(w.late, id)
	}
}

// over tells whether a wait has ended.
func (w *Carriers) over(end time.Time) bool {
	return time.Now().After(end) || w != nil && w.Context != nil && w.Context.Err() != nil
}

// awaitCarrier waits until the interface, which was just looked at, has the carrier that
// it had: without one the kernel takes no IPv6 addresses and marks routes dead.
func (c *Conn) awaitCarrier(i Interface, want Settings) (err error) {
	if !want.Up || !want.Running || c.standsOnDead(i) {
		return nil
	}
	begun := time.Now()
	for end := c.Carriers.until(i.ID, begun); !i.Running && !c.Carriers.over(end); pace.Sleep(begun, 2*time.Millisecond) {
		if i, err = c.Get(i.Index); err != nil {
			return err
		}
	}
	c.Carriers.waited(i.ID, i.Running, time.Since(begun))
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
	if c.Carriers == nil || len(c.Carriers.late) == 0 {
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
