package world

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/kernel/udev"
	"gresnet/lib/link"
)

// ErrGone means that the node has lost the hardware: its driver let go of it, or somebody removed
// a virtual function. Nothing is left to return.
var ErrGone = errors.New("the node does not have it any more")

// Either looks into the job's namespace and into the node's: nothing else is the lease's. The end of the job's
// namespace brings what returns to the node, a moment later (IPoIB: ipoib_netlink.c, netns_refund).
func (w *World) Either(returns bool, notFound error, look func(*scan.View) error) error {
	err := w.InJob(look)
	ended := errors.Is(err, ErrNoNamespace)
	if !ended && !errors.Is(err, notFound) {
		return err
	}
	if err = w.OnHost(look); ended && returns && errors.Is(err, notFound) {
		err = w.Try(poll.Dying, notFound, func() error { return w.OnHost(look) })
	}
	return err
}

// OthersHave tells whether another lease has an HCA. It is asked when the HCA, or an interface of
// it, is neither in this job nor on the node: who is about to move an HCA has claimed it
// before. The journal may say that this lease has it still, if an undone mark does not read.
func (w *World) OthersHave(id node.ID) bool {
	t, err := w.Table.Read()
	if err != nil {
		return false
	}
	c, held := t.Holder(id)
	return held && c.Job != 0 && (c.Job != w.Job || c.Run != w.Run)
}

// Await looks again whenever a device comes, until the look finds something, the time is over, or
// the node turns out to have lost the device. A device that seems lost gets its time even if the first
// looks at a busy node took longer than that.
func (w *World) Await(lost func() (bool, error), notFound error, look func() error) error {
	var missing error
	gone := false
	bound := func() poll.Bound {
		if gone {
			return poll.Gone
		}
		return poll.Hidden
	}
	found, err := w.UntilHeard(bound, w.awaitArrival, func() (bool, error) {
		// What comes from now on may come after this look.
		if err := w.hear(); err != nil {
			return false, err
		}
		if missing = look(); !errors.Is(missing, notFound) {
			return true, missing
		}
		var err error
		gone, err = lost()
		return false, err
	})
	switch {
	case found || err != nil:
		return err
	case gone && w.IsOver(poll.Gone):
		return ErrGone
	}
	return fmt.Errorf("it is neither on the node nor in its job: %w", missing)
}

// hear makes the kernel report devices that come to the root namespace.
func (w *World) hear() (err error) {
	if w.arrivals == nil {
		w.arrivals, err = udev.NewArrivals()
	}
	return err
}

// awaitArrival waits until a device comes, for a time at most.
func (w *World) awaitArrival(most time.Duration) error { return w.arrivals.Wait(most) }

// AwaitLost waits until it is sure that the node has lost an HCA, and returns ErrGone. It returns
// nil as soon as the node has the HCA, in whatever namespace.
func (w *World) AwaitLost(id node.ID) error {
	has, err := w.UntilHeard(func() poll.Bound { return poll.Gone }, w.awaitArrival, func() (bool, error) {
		if err := w.hear(); err != nil {
			return false, err
		}
		gone, err := w.HasLost(id)
		return !gone, err
	})
	switch {
	case has || err != nil:
		return err
	case w.IsOver(poll.Gone):
		return ErrGone
	}
	return fmt.Errorf("see whether the node has lost HCA %s: %w", id, w.Context.Err())
}

// HasLost tells whether the node has lost an HCA that is neither in the job nor on the node. In doubt the node has it:
// another namespace may hide it.
func (w *World) HasLost(id node.ID) (bool, error) {
	id = id.Whole()
	verbs, err := sysfs.AllVerbs(w.Sys)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if id.PCI != "" {
		verbs, err = sysfs.VerbsAt(w.Sys, verbs, id)
		if err != nil || len(verbs) == 0 {
			return err == nil, err
		}
		if id.GUID == "" { // its place alone tells which it is
			return false, nil
		}
	}
	// All that is left may be others': of the same PCI function, or of the whole node if its place is not known.
	var seen []scan.Device
	see := func(v *scan.View) error {
		devices, err := v.Devices()
		seen = append(seen, devices...)
		if err != nil || areOthers(verbs, seen, id) {
			return err
		}
		return errNext
	}
	for _, look := range []func(func(*scan.View) error) error{w.OnHost, w.InJob} {
		if err := look(see); !errors.Is(err, errNext) && !errors.Is(err, ErrNoNamespace) {
			return err == nil, err
		}
	}
	return areOthers(verbs, seen, id), nil
}

// IsLost tells whether the node has lost an HCA for sure.
func (w *World) IsLost(id node.ID) bool {
	gone, err := w.HasLost(id)
	return err == nil && gone
}

// areOthers tells whether each uverbs device belongs to an HCA that a look has seen, and that is not the one
// with an identity. Since kernel 7.3 devices of two namespaces may have the same name.
func areOthers(verbs []sysfs.Owner, seen []scan.Device, id node.ID) bool {
	seen = slices.Clone(seen)
	for _, v := range verbs {
		i := slices.IndexFunc(seen, func(d scan.Device) bool {
			return d.ID != id && d.Name == v.Device && (sysfs.BusAddress{PCI: cmp.Or(d.Function, d.ID.PCI), Aux: d.ID.Aux}) == v.Address
		})
		if i < 0 {
			return false
		}
		seen = slices.Delete(seen, i, i+1)
	}
	return true
}

// HasLostInterface tells whether the node has lost an interface that no look finds. An Ethernet
// interface may outlive its RDMA device: then it is only hidden as long as its own device has a
// driver.
func (w *World) HasLostInterface(hca node.ID, id link.ID) (bool, error) {
	gone, err := w.HasLost(hca)
	if err != nil || !gone || id.Kind == "ipoib" {
		return gone, err
	}
	bound, err := sysfs.HasDriver(w.Sys, id.Parent)
	return !bound, err
}

// errNext makes a search go on with the next namespace.
var errNext = errors.New("next")
