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

// hcasInside returns the HCAs that have a part in the job's namespace: an RDMA device, or an interface
// that one of the steps is about.
func hcasInside(w *world.World, steps []step.Step) (ids []node.ID, err error) {
	err = w.InJob(func(v *scan.View) error {
		if ids, err = rdmaDevices(v); err != nil {
			return err
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

// rdmaDevices returns the HCAs whose RDMA devices a namespace has for itself.
func rdmaDevices(v *scan.View) (ids []node.ID, err error) {
	mode, err := v.Mode()
	if errors.Is(err, rdma.ErrNoRDMA) || err == nil && mode == rdma.Shared {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	devices, err := v.Devices()
	for _, d := range devices {
		ids = append(ids, d.ID)
	}
	return ids, err
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
