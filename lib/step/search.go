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

// await looks again and again until the look finds, the time is over, or the
// node turns out to have lost the HCA. One that seems lost it awaits past that time, which
// a few looks at a busy node's namespaces can take, until it is sure.
func (w *World) await(id node.ID, notFound error, look func() error) error {
	begun := time.Now()
	for {
		missing := look()
		if !errors.Is(missing, notFound) {
			return missing
		}
		gone, err := w.gone(id)
		if err != nil {
			return err
		}
		if gone && time.Now().After(w.goneDeadline()) {
			return ErrGone
		}
		if w.Context.Err() != nil || !gone && time.Since(begun) >= hiddenTimeout {
			return fmt.Errorf("it is in no namespace that can be entered: %w", missing)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

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
		place := sysfs.Place{PCI: id.PCI, Aux: id.Aux}
		return !slices.ContainsFunc(verbs, func(v sysfs.Owner) bool { return v.Place == place }), nil
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
		if gone, goneErr := w.gone(s.HCA()); goneErr == nil && gone {
			return nil
		}
		return fmt.Errorf("%s is not in the root namespace", s.Object())
	}
	return err
}
