package step

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"gresnet/lib/link"
	"gresnet/lib/netns"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/sysfs"
	"gresnet/lib/udev"
)

// ErrGone means that the node has lost the hardware: its driver let go of it,
// or it was a virtual function and was removed. There is nothing to bring home.
var ErrGone = errors.New("the node does not have it any more")

// elsewhere looks at every namespace that can be entered, besides the node's and the job's,
// until the look is not without success.
func (w *World) elsewhere(notFound error, look func(*scan.View) error) error {
	all, search := netns.All()
	if search != nil && !errors.Is(search, netns.ErrHeldUp) {
		return search
	}
	defer func() {
		for _, ns := range all {
			ns.Close()
		}
	}()
	for _, ns := range all {
		if ns.String() == w.Host.String() || w.job != nil && ns.String() == w.job.ns.String() {
			continue
		}
		p, err := enter(ns, w.Sys, w.hints())
		if err != nil {
			return err
		}
		err = p.do(func() error { return look(p.view) })
		p.leave()
		if !errors.Is(err, notFound) {
			return err
		}
	}
	if search != nil {
		return fmt.Errorf("%w: %w", notFound, search)
	}
	return notFound
}

// hiddenTimeout bounds the wait for what is in a namespace that nobody can
// enter: a socket that still sends keeps one for minutes, the kernel's own
// clean-up takes a moment.
const hiddenTimeout = 10 * time.Second

// await looks again whenever a device comes, until the look finds, the time is over, or
// the node turns out to have lost what it looks for. What seems lost it awaits past that
// time, which a few looks at a busy node's namespaces can take, until it is sure.
func (w *World) await(lost func() (bool, error), notFound error, look func() error) error {
	begun := time.Now()
	for {
		// What comes from now on may come after this look.
		if err := w.hear(); err != nil {
			return err
		}
		missing := look()
		if !errors.Is(missing, notFound) {
			return missing
		}
		gone, err := lost()
		if err != nil {
			return err
		}
		if gone && time.Now().After(w.goneDeadline()) {
			return ErrGone
		}
		if w.Context.Err() != nil || !gone && time.Since(begun) >= hiddenTimeout {
			return fmt.Errorf("it is in no namespace that can be entered: %w", missing)
		}
		end := begun.Add(hiddenTimeout)
		if gone {
			end = w.goneDeadline()
		}
		if err := w.awaitArrival(end); err != nil {
			return err
		}
	}
}

// hear has the kernel tell of devices that come to the root namespace.
func (w *World) hear() (err error) {
	if w.arrivals == nil {
		w.arrivals, err = udev.NewArrivals()
	}
	return err
}

// awaitArrival waits until a device comes, or for a while, but not past an end or the run's.
func (w *World) awaitArrival(end time.Time) error {
	if over, bounded := w.Context.Deadline(); bounded && over.Before(end) {
		end = over
	}
	return w.arrivals.Wait(max(time.Millisecond, min(lookAgain, time.Until(end))))
}

// lookAgain is the time after which await looks though nothing came: the kernel tells of
// what comes to the root namespace, and what is looked for may come to another.
const lookAgain = time.Second

// goneTimeout is how long an HCA may be lost before it is believed: a driver that
// recovers from a fault lets go of it for some seconds, and what is believed to be
// gone has its settings forgotten.
const goneTimeout = 5 * time.Second

// goneDeadline is until when this run waits for HCAs that are lost.
func (w *World) goneDeadline() time.Time {
	if w.goneUntil.IsZero() {
		w.goneUntil = time.Now().Add(goneTimeout)
	}
	return w.goneUntil
}

// gone tells whether the node has lost an HCA that no look finds. While in
// doubt it has it: a namespace that nobody can enter may hide it.
func (w *World) gone(id node.ID) (bool, error) {
	verbs, err := sysfs.AllVerbs(w.Sys)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if id.PCI != "" {
		address := sysfs.BusAddress{PCI: id.PCI, Aux: id.Aux}
		return !slices.ContainsFunc(verbs, func(v sysfs.Owner) bool { return v.Address == address }), nil
	}
	// Without a place: any device that is in none of the namespaces may be the one.
	var seen []string
	see := func(v *scan.View) error {
		names, err := v.Names()
		seen = append(seen, names...)
		if err != nil {
			return err
		}
		return errNext
	}
	for _, look := range []func(func(*scan.View) error) error{
		w.OnHost, w.inJob, func(f func(*scan.View) error) error { return w.elsewhere(errNext, f) },
	} {
		if err := look(see); !errors.Is(err, errNext) && !errors.Is(err, errNoNamespace) {
			return false, err
		}
	}
	return allSeen(verbs, seen), nil
}

// allSeen tells whether each uverbs device is one of an RDMA device that was seen. Since
// kernel 7.3 two namespaces may have the same name.
func allSeen(verbs []sysfs.Owner, seen []string) bool {
	for _, v := range verbs {
		i := slices.Index(seen, v.Device)
		if i < 0 {
			return false
		}
		seen = slices.Delete(seen, i, i+1)
	}
	return true
}

// goneInterface tells whether the node has lost an interface that no look finds. It may
// outlive its RDMA device, but for one of IPoIB: then it is hidden if its own device has a driver still.
func (w *World) goneInterface(hca node.ID, id link.ID) (bool, error) {
	gone, err := w.gone(hca)
	if err != nil || !gone || id.Kind == "ipoib" {
		return gone, err
	}
	bound, err := sysfs.HasDriver(w.Sys, id.Parent)
	return !bound, err
}

// errNext is a look that goes on with the next namespace.
var errNext = errors.New("next")

// Home is an error unless what a step moved is on the node, or gone from it.
func Home(w *World, s Step) error {
	var err error
	switch s := s.(type) {
	case *RDMA:
		held, lockErr := s.lock(w)
		if lockErr != nil {
			return lockErr
		}
		defer held.Close()
		err = w.OnHost(func(v *scan.View) error { _, err := v.Find(s.ID); return err })
	case *Link:
		err = w.OnHost(func(v *scan.View) error { _, err := v.Interface(s.Interface); return err })
	}
	if errors.Is(err, scan.ErrNotFound) || errors.Is(err, link.ErrNotFound) {
		lost := func() (bool, error) { return w.gone(s.HCA()) }
		if link, is := s.(*Link); is {
			lost = func() (bool, error) { return w.goneInterface(link.Of, link.Interface) }
		}
		if gone, goneErr := lost(); goneErr == nil && gone {
			return nil
		}
		return fmt.Errorf("%s is not in the root namespace", s.Object())
	}
	return err
}
