package step

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/event"
	"gresnet/lib/state/lock"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/node"
	"gresnet/lib/words/poll"
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

// Do moves the device.
func (s *RDMA) Do(w *world.World) error { return finished(s.Start(w)) }

// Start makes the kernel move the device.
func (s *RDMA) Start(w *world.World) (wait func() error, err error) {
	job, err := w.JobNS()
	if err != nil {
		return nil, err
	}
	held, err := s.Lock(w)
	if err != nil {
		return nil, err
	}
	deadline := moveDeadline(w.Context)
	var end func(time.Time) error
	err = w.OnHost(func(v *scan.View) error {
		d, err := v.Locate(s.ID)
		if err != nil {
			return err
		}
		end, err = v.Move(d, job.FD(), "", held.File)
		return err
	})
	if err != nil {
		held.Close()
		return nil, fmt.Errorf("move RDMA device %s into the job: %w", s.Name, err)
	}
	return func() error {
		defer held.Close()
		if err := end(deadline); err != nil {
			return fmt.Errorf("move RDMA device %s into the job: %w", s.Name, err)
		}
		return w.ApplyCM(string(s.Name), s.CM)
	}, nil
}

// Undo brings the device home and gives it its name. It does not move a device that is home
// already: the kernel would carry the move out in full, and every user would lose the device.
func (s *RDMA) Undo(w *world.World) error { return finished(s.StartUndo(w)) }

// StartUndo makes the kernel bring the device home if a glance finds it.
func (s *RDMA) StartUndo(w *world.World) (wait func() error, err error) {
	held, err := s.Lock(w)
	if err != nil {
		return nil, err
	}
	// A glance can miss it: only a /sys of its namespace shows a device whose ib_uverbs was
	// unloaded. So it is nowhere only if a closer look finds nothing.
	end, err := s.look(w, (*scan.View).Glance, w.InJob, held)
	if errors.Is(err, scan.ErrNotFound) {
		end, err = done, s.search(w, held)
	}
	if err != nil {
		held.Close()
		return nil, s.home(w, err)
	}
	return func() error {
		defer held.Close()
		return s.home(w, end())
	}, nil
}

// home restores RDMA-CM's settings for a device that came home. If another device has its name, the
// device gets it when all are home: the job may have swapped the names of two.
func (s *RDMA) home(w *world.World, err error) error {
	if errors.Is(err, rdma.ErrNameTaken) {
		w.Leave(s, func() error { return s.Verify(w) })
		return nil
	}
	if err != nil {
		return fmt.Errorf("bring RDMA device %s home: %w", s.Name, err)
	}
	return w.ApplyCM(string(s.Name), s.CM)
}

// Verify gives the device its name once more: udev names each device that appears, and so those
// that come home (rdma-core's 60-rdma-persistent-naming.rules).
func (s *RDMA) Verify(w *world.World) error {
	err := w.OnHost(func(v *scan.View) error { return s.restoreName(v, (*scan.View).Find) })
	if err != nil {
		return fmt.Errorf("look at RDMA device %s at home: %w", s.Name, err)
	}
	return w.ApplyCM(string(s.Name), s.CM)
}

// finished waits for the end of what was started.
func finished(wait func() error, err error) error {
	if err != nil {
		return err
	}
	return wait()
}

// done waits for nothing.
func done() error { return nil }

// errOthers means that what was found is in another lease.
var errOthers = errors.New("another lease has it")

// search looks for the device everywhere, again and again, and brings it home.
func (s *RDMA) search(w *world.World, held *lock.File) error {
	lost := func() (bool, error) { return w.HasLost(s.ID) }
	return w.Await(lost, scan.ErrNotFound, func() error {
		err := finished(s.look(w, (*scan.View).Find, w.InJobWithSysfs, held))
		if !errors.Is(err, scan.ErrNotFound) {
			return err
		}
		elsewhere := func(f func(*scan.View) error) error {
			return w.Elsewhere(scan.ErrNotFound, func(v *scan.View) error {
				if _, err := v.Find(s.ID); err == nil && w.OthersHave(s.ID) {
					return errOthers
				}
				return f(v)
			})
		}
		if err = finished(s.fetch(w, (*scan.View).Find, elsewhere, held)); errors.Is(err, errOthers) {
			return nil
		}
		return err
	})
}

// look looks for the device in the job and at home, and starts to bring it home.
func (s *RDMA) look(w *world.World, find finder, inJob around, held *lock.File) (wait func() error, err error) {
	atHome := func() error {
		return w.OnHost(func(v *scan.View) error { return s.restoreName(v, find) })
	}
	end, err := s.fetch(w, find, inJob, held)
	if errors.Is(err, scan.ErrNotFound) || errors.Is(err, world.ErrNoNamespace) {
		return done, atHome()
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		err := end()
		if errors.Is(err, scan.ErrShared) {
			return atHome()
		}
		return err
	}, nil
}

// fetch starts to bring the device home from where it finds it. If another device has its name
// meanwhile, it comes under a free one, and the error says so.
func (s *RDMA) fetch(w *world.World, find finder, there around, held *lock.File) (wait func() error, err error) {
	name, end, err := s.move(w, find, there, held, false)
	if err != nil {
		return nil, err
	}
	return func() error {
		err := end()
		if errors.Is(err, rdma.ErrNameTaken) {
			if name, end, err = s.move(w, find, there, held, true); err == nil {
				err = end()
			}
		}
		if err != nil || name == string(s.Name) {
			return err
		}
		return w.OnHost(func(v *scan.View) error { return s.restoreName(v, (*scan.View).Find) })
	}, nil
}

// move starts to move the device home, under its present name or a free one, and returns that name.
func (s *RDMA) move(w *world.World, find finder, there around, held *lock.File, free bool) (name string, wait func() error, err error) {
	deadline := moveDeadline(w.Context)
	var users []int
	var end func(time.Time) error
	err = there(func(v *scan.View) error {
		d, err := find(v, s.ID)
		if err != nil {
			return err
		}
		if users, err = v.Users(d); err != nil {
			return err
		}
		if len(users) > 0 {
			w.Notice("RDMA device %s is taken from processes that still use it: pid %s", d.Name, pids(users))
		}
		if !free {
			name = d.Name
			end, err = v.Move(d, w.Host.FD(), "", held.File)
			return err
		}
		name = freeName(d)
		end, err = v.Move(d, w.Host.FD(), name, held.File)
		return err
	})
	if err != nil {
		return "", nil, err
	}
	return name, func() error {
		err := end(deadline)
		if err != nil && len(users) > 0 && !errors.Is(err, rdma.ErrNameTaken) {
			return fmt.Errorf("%w; pid %s used it", err, pids(users))
		}
		return err
	}, nil
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

// moveDeadline gives a move half of the time that the run has left. Moves of busy devices with
// firmware take a second, and wait for those of other jobs. A move that takes longer than this
// never ends, and other HCAs need their time, too.
func moveDeadline(ctx context.Context) time.Time {
	end, bounded := ctx.Deadline()
	if !bounded {
		return time.Now().Add(poll.Move)
	}
	return time.Now().Add(time.Until(end) / 2)
}

// lock takes the lock of the HCA's moves. While an earlier move still holds it, the device is not
// where it seems to be.
func (s *RDMA) Lock(w *world.World) (*lock.File, error) {
	return s.lockUntil(w, time.Now().Add(poll.EarlierMove))
}

func (s *RDMA) lockUntil(w *world.World, end time.Time) (*lock.File, error) {
	ctx, cancel := context.WithDeadline(w.Context, end)
	defer cancel()
	held, err := lock.HCA(ctx, w.Locks, s.ID)
	if err != nil {
		err = fmt.Errorf("move RDMA device %s: an earlier move of it has not ended: %w", s.Name, err)
		return nil, hint.With(err, "GN255 if it never ends, something in the kernel does not let go of the device: the node needs a reboot")
	}
	return held, nil
}

// restoreName gives the device, which is on the node, its name. If another device has that, it gets
// a free one: its present name may belong to a device that comes home later.
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
