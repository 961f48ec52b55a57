package scan

import (
	"slices"
	"strings"

	"gresnet/lib/rdma"
)

// Foreign are the parts of the kernel that use a device beyond what the RDMA
// subsystem itself does: a file system, a storage driver. A move takes the
// device from them, or waits for them for ever.
func (v *View) Foreign(d Device) ([]string, error) {
	holders, err := v.rdma.Holders(d.Index)
	if err != nil {
		return nil, err
	}
	var foreign []string
	for _, h := range holders {
		own := h.Kernel == "" || slices.Contains(ownUsers, h.Kernel) || d.Driver != "" && strings.HasPrefix(h.Kernel, d.Driver)
		if !own && !slices.Contains(foreign, h.Kernel) {
			foreign = append(foreign, h.Kernel)
		}
	}
	return foreign, nil
}

// Users are the processes that use a device, by pid. It is abandoned if one uses it that did
// not begin to: that one has ended, and left it a descriptor.
func (v *View) Users(d Device) (pids []int, abandoned bool, err error) {
	holders, err := v.rdma.Holders(d.Index)
	if err != nil {
		return nil, false, err
	}
	for _, h := range holders {
		if h.PID != 0 {
			pids = append(pids, int(h.PID))
		}
	}
	return pids, slices.Contains(holders, rdma.Holder{}), nil
}

// Used are the indices of the RDMA devices that processes may use.
func (v *View) Used() ([]uint32, error) {
	if err := v.dial(); err != nil {
		return nil, err
	}
	return v.rdma.Used()
}

// ownUsers are the modules that come with an RDMA device and go with it.
var ownUsers = []string{"ib_core", "ib_cm", "iw_cm", "rdma_cm", "ib_ipoib", "ib_umad", "ib_uverbs", "rdma_ucm"}
