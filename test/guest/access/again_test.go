package access

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// It comes before the test of limits, and is in a file before that one's: once a cgroup that
// had a limit in rdma.max is gone, the kernel crashes when the driver is unloaded. The limit's
// entry is in the device's list still (kernel/cgroup/rdma.c:rdmacg_css_offline frees no entry
// that is not in use), see [limits] in docs/configuration.md.
func TestAFolderThatTheKernelMakesAgainIsRestricted(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	asAfterBoot(t)
	vm.Run(t, vm.Repo()+"/bin/gresnet boot")
	options := strings.TrimSpace(vm.Run(t, "cd /sys/module/ibfake/parameters; grep -H . nib nroce nmin | tr : = | xargs"))
	// With the last HCA, what udev has put there goes, too, and all that is the kernel's.
	out := vm.Run(t, "modprobe -r ibfake rdma_ucm; udevadm settle; find /dev/infiniband -mindepth 1 -not -name .gresnet; stat -c 'mode %a' /dev/infiniband; modprobe rdma_ucm; modprobe ibfake "+options+"; udevadm settle; stat -c 'mode %a' /dev/infiniband")
	vm.Run(t, vm.Dress)
	if strings.Count(out, "mode 700") != 2 {
		t.Errorf("the folder, without HCAs and with them again:\n%s", out)
	}
}
