package lease

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
)

// inJob calls f with a view of the job's namespace, if there is one.
func inJob(w *world.World, f func(*scan.View) error) error {
	if err := w.InJob(f); !errors.Is(err, world.ErrNoNamespace) {
		return err
	}
	return nil
}

// hcasInside returns the HCAs that have a part in the job's namespace: an RDMA device, or an interface
// that one of the steps is about.
func hcasInside(w *world.World, steps []step.Step) (ids []node.ID, err error) {
	err = inJob(w, func(v *scan.View) error {
		devices, err := rdmaDevices(v)
		if err != nil {
			return err
		}
		for _, d := range devices {
			ids = append(ids, d.ID)
		}
		interfaces, err := v.Link.List()
		for _, s := range steps {
			move, is := s.(*step.Link)
			if is && slices.ContainsFunc(interfaces, func(i link.Interface) bool { return i.ID == move.Interface }) {
				ids = append(ids, move.Of)
			}
		}
		return err
	})
	return ids, err
}

// rdmaDevices returns the RDMA devices that a namespace has for itself.
func rdmaDevices(v *scan.View) ([]scan.Device, error) {
	mode, err := v.Mode()
	if errors.Is(err, rdma.ErrNoRDMA) || err == nil && mode == rdma.Shared {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v.Devices()
}

// isHome returns an error unless the device that a step moved is on the node, or the node has lost
// it.
func isHome(w *world.World, s step.Step) error {
	var err error
	switch s := s.(type) {
	case *step.RDMA:
		held, lockErr := s.Lock(w)
		if lockErr != nil {
			return lockErr
		}
		defer held.Close()
		err = w.OnHost(func(v *scan.View) error { _, err := v.Find(s.ID); return err })
	case interface{ AtHome(*world.World) error }:
		return s.AtHome(w)
	case *step.Link:
		err = w.OnHost(func(v *scan.View) error { _, err := v.Interface(s.Interface); return err })
	}
	if errors.Is(err, scan.ErrNotFound) || errors.Is(err, link.ErrNotFound) {
		lost := func() (bool, error) { return w.HasLost(s.HCA()) }
		if link, is := s.(*step.Link); is {
			lost = func() (bool, error) { return w.HasLostInterface(link.Of, link.Interface) }
		}
		if gone, goneErr := lost(); goneErr == nil && gone {
			return nil
		}
		return fmt.Errorf("%s is not in the root namespace", s.Object())
	}
	return err
}
