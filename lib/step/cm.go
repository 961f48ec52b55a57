package step

import (
	"fmt"

	"gresnet/lib/rdma"
	"gresnet/lib/sysfs"
)

// RDMACM is where RDMA-CM shows what it has for devices.
func (w *World) RDMACM() rdma.CMFolder { return rdma.CMFolder{Path: w.CM, Notes: w.Dir} }

// ReadCM reads what RDMA-CM has for a device that is on the node.
func (w *World) ReadCM(device string) ([]rdma.CM, error) {
	if one, err := w.meansOne(device); !one {
		return nil, err
	}
	return w.RDMACM().Read(device)
}

// applyCM gives RDMA-CM what it had for a device.
func (w *World) applyCM(device string, want []rdma.CM) error {
	if len(want) == 0 {
		return nil
	}
	if one, err := w.meansOne(device); !one {
		return err
	}
	return w.RDMACM().Apply(device, want)
}

// meansOne tells whether a name means one device for RDMA-CM, which has one list of those of
// all namespaces. Since kernel 7.3 two may have one name, and its folder is either's: what is
// written there may be the other's then, so that both are left alone.
func (w *World) meansOne(device string) (bool, error) {
	if w.CM == "" {
		return true, nil // nobody wants to know
	}
	all, err := sysfs.CountNamed(w.Sys, device)
	if err != nil {
		return false, fmt.Errorf("look what RDMA-CM means by %s: %w", device, err)
	}
	if all > 1 && !w.ambiguous[device] {
		w.Notice("%d RDMA devices of the node are called %s: RDMA-CM's settings for them (default_roce_mode, default_roce_tos) are neither read nor restored", all, device)
		if w.ambiguous == nil {
			w.ambiguous = map[string]bool{}
		}
		w.ambiguous[device] = true
	}
	return all <= 1, nil
}
