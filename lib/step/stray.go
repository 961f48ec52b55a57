package step

import (
	"errors"
	"slices"

	"gresnet/lib/link"
	"gresnet/lib/node"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
)

// Strays are the interfaces of hardware that are in the job's namespace, each
// as the step whose undo brings it home under the name that it has. They are
// for an unwinding that has brought home all that it knows of.
func Strays(w *World) (strays []*Link, err error) {
	err = w.inJob(func(v *scan.View) error {
		list, err := v.Link.List()
		for _, i := range list {
			hardware := i.ID.Kind == "" || i.ID.Kind == "ipoib"
			if hardware && i.Index != loopback {
				strays = append(strays, &Link{Interface: i.ID, Name: i.Name})
			}
		}
		return err
	})
	if errors.Is(err, errNoNamespace) {
		return nil, nil
	}
	return strays, err
}

// Inside are the HCAs of which something is in the job's namespace: an RDMA device, or
// an interface that one of the steps is about.
func Inside(w *World, steps []Step) (ids []node.ID, err error) {
	err = w.inJob(func(v *scan.View) error {
		if ids, err = rdmaDevices(v); err != nil {
			return err
		}
		interfaces, err := v.Link.List()
		for _, s := range steps {
			move, is := s.(*Link)
			if is && slices.ContainsFunc(interfaces, func(i link.Interface) bool { return i.ID == move.Interface }) {
				ids = append(ids, move.Of)
			}
		}
		return err
	})
	if errors.Is(err, errNoNamespace) {
		return nil, nil
	}
	return ids, err
}

// rdmaDevices are the HCAs whose RDMA devices a namespace has for itself.
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
