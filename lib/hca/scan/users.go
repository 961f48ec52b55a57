package scan

import (
	"errors"
	"slices"
	"strings"
	"time"

	"gresnet/lib/kernel/rdma"
	"gresnet/lib/words/poll"
)

// Occupants returns the parts of the kernel that use a device beyond what the RDMA subsystem itself does, a
// file system, a storage driver, and the processes that use it, by pid. A move takes the device from them,
// or waits for them for ever.
//
// If users make the kernel's list of users longer than can be read, it is rdma.ErrTooMany.
func (v *View) Occupants(d Device) (foreign []string, pids []int, err error) {
	counted, err := v.counted(d)
	if err != nil {
		return nil, nil, err
	}
	holders, err := holders(d.Index, counted)
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

// counted returns how much processes have of a device, nil if that was not counted. Most have none.
func (v *View) counted(d Device) (*rdma.Uses, error) {
	if err := v.dial(); err != nil {
		return nil, err
	}
	uses, is, err := v.rdma.UsesOf(d.Index)
	if err != nil || !is {
		return nil, err
	}
	return &uses, nil
}

// Users returns the processes that use a device, by pid, as far as they can be listed.
func (v *View) Users(d Device) (pids []int, err error) {
	counted, err := v.counted(d)
	if err != nil || counted != nil && *counted == (rdma.Uses{}) {
		return nil, err
	}
	list, err := holders(d.Index, counted)
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

// few users are listed however long that takes: on a machine with much to do it is no user who makes the list long.
const few = 1024

// holders lists the users of a device by a connection of its own, which it leaves if these are many and it takes too long.
func holders(index uint32, counted *rdma.Uses) ([]rdma.Holder, error) {
	conn, err := rdma.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	begun, listed := time.Now(), 0
	return conn.Holders(index, counted, func(rdma.Holder) bool {
		listed++
		return listed <= few || time.Since(begun) < poll.HolderList
	})
}

// Contexts returns the numbers of a device's contexts, see rdma.Conn.Contexts. It lists them by a connection
// of its own, which it leaves if there are too many.
func (v *View) Contexts(index uint32, most int) ([]uint32, error) {
	conn, err := rdma.Dial()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.Contexts(index, most)
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
