package opened

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/kernel/netlink"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/words/node"
)

// strayLinks returns the interfaces of hardware in the job's namespace, each as the step whose undo
// brings it home under its present name. An unwinding asks for them after it has brought home all
// that it knows of.
func strayLinks(w *world.World) (strays []*step.Link, err error) {
	err = w.InJob(func(v *scan.View) error {
		list, err := v.Link.List()
		for _, i := range list {
			hardware := i.ID.Kind == "" || i.ID.Kind == "ipoib"
			if hardware && !i.Loopback {
				strays = append(strays, &step.Link{Interface: i.ID, Name: netlink.Name(i.Name)})
			}
		}
		return err
	})
	if errors.Is(err, world.ErrNoNamespace) {
		return nil, nil
	}
	return strays, err
}

// strayDevices returns the RDMA devices in the job's namespace that no step is about, each as the step whose undo brings
// it home.
func strayDevices(w *world.World, steps []step.Step) (strays []*step.RDMA, err error) {
	err = w.InJob(func(v *scan.View) error {
		devices, err := rdmaDevices(v)
		for _, d := range devices {
			noted := func(s step.Step) bool { r, is := s.(*step.RDMA); return is && r.ID == d.ID }
			if !slices.ContainsFunc(steps, noted) {
				strays = append(strays, &step.RDMA{ID: d.ID, Name: netlink.Name(d.Name)})
			}
		}
		return err
	})
	if errors.Is(err, world.ErrNoNamespace) {
		return nil, nil
	}
	return strays, err
}

// hcasInside returns the HCAs that have a part in the job's namespace: an RDMA device, or an interface
// that one of the steps is about.
func hcasInside(w *world.World, steps []step.Step) (ids []node.ID, err error) {
	err = w.InJob(func(v *scan.View) error {
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
	if errors.Is(err, world.ErrNoNamespace) {
		return nil, nil
	}
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
