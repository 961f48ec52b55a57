package scan

import (
	"errors"
	"slices"
	"strings"
	"time"

	"gresnet/lib/base/poll"
	"gresnet/lib/kernel/rdma"
)

// Occupants returns the parts of the kernel that use a device beyond what the RDMA subsystem itself does, a
// file system, a storage driver, and the processes that use it, by pid. A move takes the device from them,
// or waits for them for ever.
//
// If users make the kernel's list of users longer than can be read, it is rdma.ErrTooMany.
func (v *View) Occupants(d Device) (foreign []string, pids []int, err error) {
	holders, err := v.Holders(d, time.Now().Add(poll.HolderList))
	if err != nil {
		return nil, nil, err
	}
	for _, h := range holders {
		if h.PID != 0 {
			pids = append(pids, int(h.PID))
		}
		own := h.Kernel == "" || slices.Contains(ownUsers, h.Kernel) || d.Driver != "" && strings.HasPrefix(h.Kernel, d.Driver)
		if !own && !slices.Contains(foreign, h.Kernel) {
			foreign = append(foreign, h.Kernel)
		}
	}
	return foreign, pids, nil
}

// Users returns the processes that use a device, by pid, as far as they can be listed. Most devices have none.
func (v *View) Users(d Device) (pids []int, err error) {
	if err := v.dial(); err != nil {
		return nil, err
	}
	if uses, is, err := v.rdma.UsesOf(d.Index); err != nil || is && uses == (rdma.Uses{}) {
		return nil, err
	}
	list, err := v.Holders(d, time.Now().Add(poll.HolderList))
	if err != nil && !errors.Is(err, rdma.ErrTooMany) {
		return nil, err
	}
	for _, h := range list {
		if h.PID != 0 {
			pids = append(pids, int(h.PID))
		}
	}
	return pids, nil
}

// few users are listed however long that takes, which is not long: on a machine with much to do it is no user who
// makes the list long.
const few = 16384

// Holders lists who uses a device, by a connection of its own, which it leaves if these are many and it takes too
// long: then it returns those that it has found, and rdma.ErrTooMany.
func (v *View) Holders(d Device, until time.Time) ([]rdma.Holder, error) {
	if err := v.dial(); err != nil {
		return nil, err
	}
	var counted *rdma.Uses
	if uses, is, err := v.rdma.UsesOf(d.Index); err != nil {
		return nil, err
	} else if is {
		counted = &uses
	}
	conn, err := rdma.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	listed := 0
	return conn.Holders(d.Index, counted, func(rdma.Holder) bool {
		listed++
		return listed <= few || time.Now().Before(until)
	})
}

// Uses counts the processes' objects of the RDMA devices, by the index.
func (v *View) Uses() (map[uint32]rdma.Uses, error) {
	if err := v.dial(); err != nil {
		return nil, err
	}
	return v.rdma.Uses()
}

// ownUsers are the modules that come with an RDMA device and go with it.
var ownUsers = []string{"ib_core", "ib_cm", "iw_cm", "rdma_cm", "ib_ipoib", "ib_umad", "ib_uverbs", "rdma_ucm"}
