package scan

import (
	"slices"
	"strings"
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

// Users are the processes that use a device, by pid.
func (v *View) Users(d Device) ([]int, error) {
	holders, err := v.rdma.Holders(d.Index)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, h := range holders {
		if h.PID != 0 {
			pids = append(pids, int(h.PID))
		}
	}
	return pids, nil
}

// ownUsers are the modules that come with an RDMA device and go with it.
var ownUsers = []string{"ib_core", "ib_cm", "iw_cm", "rdma_cm", "ib_ipoib", "ib_umad", "ib_uverbs", "rdma_ucm"}
