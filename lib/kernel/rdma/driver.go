package rdma

import "strconv"

// EndsWithInterface tells a driver that lets go of its RDMA device when the interface of that
// is moved to another network namespace, in every kernel so far.
func EndsWithInterface(driver string) bool { return driver == "rxe" || driver == "siw" }

// DriverName names enum rdma_driver_id of include/uapi/rdma/ib_user_ioctl_verbs.h.
func DriverName(id uint64) string {
	names := [...]string{
		"", "mlx5", "mlx4", "cxgb3", "cxgb4", "mthca", "bnxt_re", "ocrdma", "nes", "irdma", "vmw_pvrdma",
		"qedr", "hns", "usnic", "rxe", "hfi1", "qib", "efa", "siw", "erdma", "mana", "ionic",
	}
	if id < uint64(len(names)) {
		return names[id]
	}
	return "driver " + strconv.FormatUint(id, 10)
}
