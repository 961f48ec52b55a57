package step

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/event"
	"gresnet/lib/state"
)

// RDMA moves an RDMA device into the job; exclusive mode only.
type RDMA struct {
	ID   node.ID      `json:"hca"`
	Name netlink.Name `json:"name"`
	CM   []rdma.CM    `json:"cm,omitempty"` // RDMA-CM's settings for it, which each move loses
}

func (*RDMA) Kind() string     { return "rdma" }
func (s *RDMA) Object() string { return string(s.Name) }
func (s *RDMA) HCA() node.ID   { return s.ID }

// Do moves the device. A prolog has several in flight: StartMoves.
func (s *RDMA) Do(w *world.World) error {
	waits, _, err := StartMoves(w, []*RDMA{s})
	if err != nil {
		return err
	}
	return waits[0]()
}

// StartMoves has the kernel move devices into the job, one after the other, and returns what waits for the end
// of each, in this order. If it starts none, it also returns the device that keeps it.
func StartMoves(w *world.World, list []*RDMA) (waits []func() error, of *RDMA, err error) {
	job, err := w.JobNS()
	if err != nil {
		return nil, list[0], err
	}
	c, err := lockAll(list, func(s *RDMA) (*state.Lock, error) { of = s; return s.Lock(w) })
	defer c.letGo()
	if err != nil {
		return nil, of, err
	}
	err = w.OnHost(func(v *scan.View) error {
		for i, s := range list {
			of = s
			if c.moves[i].Device, err = v.Find(s.ID); err != nil {
				return fmt.Errorf("move RDMA device %s into the job: %w", s.Name, err)
			}
		}
		of = list[0]
		return c.start(v, job.FD())
	})
	if err != nil {
		return nil, of, err
	}
	for _, s := range list {
		waits = append(waits, func() error {
			if err := c.next(poll.MoveBy(w.Context)); err != nil {
				return fmt.Errorf("move RDMA device %s into the job: %w", s.Name, err)
			}
			return w.ApplyCM(string(s.Name), s.CM)
		})
	}
	return waits, nil, nil
}

// convoy is RDMA devices that one process moves, one after the other.
type convoy struct {
	held  []*state.Lock
	moves []scan.Move
	next  func(deadline time.Time) error
}

// lockAll takes the locks of devices, up to the first that it does not get.
func lockAll(list []*RDMA, take func(*RDMA) (*state.Lock, error)) (c *convoy, err error) {
	c = new(convoy)
	for _, s := range list {
		held, err := take(s)
		if err != nil {
			return c, err
		}
		c.held, c.moves = append(c.held, held), append(c.moves, scan.Move{Lock: held.File})
	}
	return c, nil
}

// start starts the moves. The process has the lock of the first from its begin, and takes each other one when its
// turn comes: if a move hangs, the devices behind it are not on their way.
func (c *convoy) start(v *scan.View, nsfd int) (err error) {
	for _, held := range c.held[1:] {
		if err := held.LetGo(); err != nil {
			return err
		}
	}
	c.next, err = v.Start(nsfd, c.moves...)
	return err
}

// letGo closes the locks, which the process that moves has.
func (c *convoy) letGo() {
	for _, held := range c.held {
		held.Close()
	}
}

// StartUndos has the kernel move devices back, one after the other, and returns what waits for the end of each,
// in this order: of as many as it finds in the job. If it does not find the first, that is one that begins
// when somebody waits for it.
func StartUndos(w *world.World, list []*RDMA) (waits []func() error) {
	c, _ := lockAll(list, func(s *RDMA) (*state.Lock, error) { return s.lockUntil(w, time.Now()) })
	defer c.letGo()
	err := w.InJob(func(v *scan.View) error {
		for i := range c.moves {
			s := list[i]
			d, users, err := s.seek(w, v, (*scan.View).Find)
			if err != nil {
				c.moves = c.moves[:i]
				break
			}
			c.moves[i].Device = d
			waits = append(waits, func() error { return s.undone(w, c.next, d.Name, users) })
		}
		if len(c.moves) == 0 {
			return scan.ErrNotFound
		}
		return c.start(v, w.Root.FD())
	})
	if err != nil {
		return []func() error{func() error { return list[0].Undo(w) }}
	}
	return waits
}

// undone waits for the end of the next move, which is the device's. If that did not begin, because one before it
// failed, or if the device cannot move so, Undo moves it back alone.
func (s *RDMA) undone(w *world.World, next func(time.Time) error, had string, users []int) error {
	err := usedBy(next(poll.MoveBy(w.Context)), users)
	if errors.Is(err, scan.ErrNotBegun) || errors.Is(err, scan.ErrShared) || errors.Is(err, rdma.ErrNameTaken) {
		return s.Undo(w)
	}
	if err == nil && had != string(s.Name) {
		err = w.OnHost(func(v *scan.View) error { return s.restoreName(v, (*scan.View).Find) })
	}
	return s.finishReturn(w, err)
}

// Undo moves the device back and gives it its name. It does not move a device that is back
// already: the kernel would carry the move out in full, and every user would lose the device.
func (s *RDMA) Undo(w *world.World) error {
	held, err := s.Lock(w)
	if err != nil {
		return err
	}
	defer held.Close()
	// A glance can miss it: only a /sys of its namespace shows a device whose ib_uverbs was
	// unloaded. So it is nowhere only if a closer look finds nothing.
	err = s.look(w, (*scan.View).Glance, w.InJob, held)
	if errors.Is(err, scan.ErrNotFound) {
		err = s.search(w, held)
	}
	return s.finishReturn(w, err)
}

// finishReturn restores RDMA-CM's settings for a device that came back. If another device has its name, the
// device gets it when all are back: the job may have swapped the names of two.
func (s *RDMA) finishReturn(w *world.World, err error) error {
	if errors.Is(err, rdma.ErrNameTaken) {
		w.Leave(s, func() error { return s.Verify(w) })
		return nil
	}
	if err != nil {
		return fmt.Errorf("return RDMA device %s to the node: %w", s.Name, err)
	}
	return w.ApplyCM(string(s.Name), s.CM)
}

// Verify gives the device its name once more: udev names each device that appears, and so those
// that come back (rdma-core's 60-rdma-persistent-naming.rules).
func (s *RDMA) Verify(w *world.World) error {
	err := w.OnHost(func(v *scan.View) error { return s.restoreName(v, (*scan.View).Find) })
	if err != nil {
		return fmt.Errorf("look at RDMA device %s on the node: %w", s.Name, err)
	}
	return w.ApplyCM(string(s.Name), s.CM)
}

// search looks for the device again and again, and moves it back.
func (s *RDMA) search(w *world.World, held *state.Lock) error {
	lost := func() (bool, error) { return w.HasLost(s.ID) }
	return w.Await(lost, scan.ErrNotFound, func() error {
		err := s.look(w, (*scan.View).Find, w.InJobWithSysfs, held)
		if errors.Is(err, scan.ErrNotFound) && w.OthersHave(s.ID) {
			return nil
		}
		return err
	})
}

// look looks for the device in the job and on the node, and moves it back.
func (s *RDMA) look(w *world.World, find finder, inJob around, held *state.Lock) error {
	err := s.fetch(w, find, inJob, held)
	if errors.Is(err, scan.ErrNotFound) || errors.Is(err, world.ErrNoNamespace) || errors.Is(err, scan.ErrShared) {
		return w.OnHost(func(v *scan.View) error { return s.restoreName(v, find) })
	}
	return err
}

// fetch moves the device back from where it finds it. If another device has its name
// meanwhile, it comes under a free one, and the error says so.
func (s *RDMA) fetch(w *world.World, find finder, there around, held *state.Lock) error {
	name, err := s.move(w, find, there, held, false)
	if errors.Is(err, rdma.ErrNameTaken) {
		name, err = s.move(w, find, there, held, true)
	}
	if err != nil || name == string(s.Name) {
		return err
	}
	return w.OnHost(func(v *scan.View) error { return s.restoreName(v, (*scan.View).Find) })
}

// move moves the device to the node, under its present name or a free one, and returns that name.
func (s *RDMA) move(w *world.World, find finder, there around, held *state.Lock, free bool) (name string, err error) {
	err = there(func(v *scan.View) error {
		d, users, err := s.seek(w, v, find)
		if err != nil {
			return err
		}
		m := scan.Move{Device: d, Lock: held.File}
		if name = d.Name; free {
			name = freeName(d)
			m.Name = name
		}
		next, err := v.Start(w.Root.FD(), m)
		if err != nil {
			return err
		}
		return usedBy(next(poll.MoveBy(w.Context)), users)
	})
	return name, err
}

// seek finds the device, and says who uses it.
func (s *RDMA) seek(w *world.World, v *scan.View, find finder) (d scan.Device, users []int, err error) {
	if d, err = find(v, s.ID); err != nil {
		return d, nil, err
	}
	if users, err = v.Users(d); err == nil && len(users) > 0 {
		w.Notice("RDMA device %s is taken from processes that still use it: pid %s", d.Name, pids(users))
	}
	return d, users, err
}

// usedBy says of a move that failed who used the device.
func usedBy(err error, users []int) error {
	if err != nil && len(users) > 0 && !errors.Is(err, rdma.ErrNameTaken) {
		return fmt.Errorf("%w; pid %s used it", err, pids(users))
	}
	return err
}

// pids are the first of some processes for a text, and how many more there are.
func pids(list []int) string {
	var names []string
	for _, pid := range list {
		names = append(names, strconv.Itoa(pid))
	}
	return event.FirstOf(names)
}

// finder is a way to look for an HCA, and around a way to be in a namespace.
type (
	finder func(*scan.View, node.ID) (scan.Device, error)
	around func(func(*scan.View) error) error
)

// lock takes the lock of the HCA's moves. While an earlier move still holds it, the device is not
// where it seems to be.
func (s *RDMA) Lock(w *world.World) (*state.Lock, error) {
	return s.lockUntil(w, time.Now().Add(poll.EarlierMove))
}

func (s *RDMA) lockUntil(w *world.World, end time.Time) (*state.Lock, error) {
	ctx, cancel := context.WithDeadline(w.Context, end)
	defer cancel()
	held, err := state.LockHCA(ctx, w.Locks, s.ID)
	if err != nil {
		err = fmt.Errorf("move RDMA device %s: an earlier move of it has not ended: %w", s.Name, err)
		return nil, hint.With(err, "GN255 if it never ends, something in the kernel does not let go of the device: the node needs a reboot")
	}
	return held, nil
}

// restoreName gives the device, which is on the node, its name. If another device has that, it gets
// a free one: its present name may belong to a device that comes back later.
func (s *RDMA) restoreName(v *scan.View, find finder) error {
	d, err := find(v, s.ID)
	if err != nil || d.Name == string(s.Name) {
		return err
	}
	err = v.Rename(d, string(s.Name))
	if free := freeName(d); errors.Is(err, rdma.ErrNameTaken) && d.Name != free {
		if err := v.Rename(d, free); err != nil {
			return fmt.Errorf("rename RDMA device %s out of the way to %s: %v", d.Name, free, err) // no name of its own to wait for
		}
	}
	if err != nil {
		return fmt.Errorf("rename RDMA device %s to %s: %w", d.Name, s.Name, err)
	}
	return nil
}

// freeName returns a name that no other device has, because it contains the device's index.
func freeName(d scan.Device) string { return fmt.Sprintf("gresnet%d", d.Index) }
