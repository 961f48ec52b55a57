package world

import (
	"fmt"

	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
)

// RDMACM returns the folder where RDMA-CM shows its settings for devices.
func (w *World) RDMACM() rdma.CMFolder { return rdma.CMFolder{Path: w.CM, Notes: string(w.Dir)} }

// ReadCM reads RDMA-CM's settings for a device that is on the node.
func (w *World) ReadCM(device string) ([]rdma.CM, error) {
	if w.CM == "" {
		return nil, nil // it is not kept
	}
	if w.names == nil { // those of all HCAs are read at one time
		var err error
		if w.names, err = w.countNames(device); err != nil {
			return nil, err
		}
	}
	if !w.meansOne(device, w.names) {
		return nil, nil
	}
	return w.RDMACM().Read(device)
}

// ApplyCM restores RDMA-CM's settings for a device.
func (w *World) ApplyCM(device string, want []rdma.CM) error {
	return w.RDMACM().Apply(device, want, func() (bool, error) {
		names, err := w.countNames(device)
		return err == nil && w.meansOne(device, names), err
	})
}

func (w *World) countNames(device string) (map[string]int, error) {
	names, err := sysfs.CountNames(w.Sys)
	if err != nil {
		return nil, fmt.Errorf("look what RDMA-CM means by %s: %w", device, err)
	}
	return names, nil
}

// meansOne tells whether one device alone has a name. RDMA-CM lists the devices of all namespaces
// together, and since kernel 7.3 two may have one name: a write to its folder may then reach the
// other one, so gresnet leaves both alone.
func (w *World) meansOne(device string, names map[string]int) bool {
	all := names[device]
	if all > 1 && !w.ambiguous[device] {
		w.Notice("%d RDMA devices of the node are called %s: RDMA-CM's settings for them (default_roce_mode, default_roce_tos) are neither read nor restored", all, device)
		if w.ambiguous == nil {
			w.ambiguous = map[string]bool{}
		}
		w.ambiguous[device] = true
	}
	return all <= 1
}
