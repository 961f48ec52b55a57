package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// A sub-device has the GUID and the place of its HCA, and no uverbs device.
func TestAnHCAWithASubDeviceGoesToAJobWithItAndBack(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long) // the short tests run on 6.1, which has no sub-devices; on 7.3 ibfake cannot make them
	vm.Slurm(t)
	options := strings.TrimSpace(vm.Run(t, "cd /sys/module/ibfake/parameters; grep -H . nib nroce nmin | tr : = | xargs"))
	vm.Run(t, "modprobe -r ibfake; "+vm.ForgetTable)
	t.Cleanup(func() {
		vm.Run(t, "modprobe -r ibfake; "+vm.ForgetTable+"; modprobe ibfake "+options+"; udevadm settle\n"+vm.Dress+vm.Repo()+"/bin/gresnet close")
		vm.WriteConfig(t, vm.Config)
	})
	out, err := vm.Try("modprobe ibfake nib=2 smi=Y 2>&1 && udevadm settle && ls /sys/class/infiniband")
	if !strings.HasPrefix(vm.Run(t, "uname -r"), "6.12.") {
		if err == nil {
			t.Errorf("this kernel has sub-devices: %s", out)
		}
		return
	}
	if err != nil || !strings.Contains(out, "smi1") {
		t.Fatalf("make sub-devices: %v: %s", err, out)
	}
	vm.WriteConfig(t, "[slurm]\nsource = [\"gpu\"]\n[[hca]]\nindex = 0\nmatch = \"rdma=ibfake0\"\ngpus = [0]\n[[hca]]\nindex = 1\nmatch = \"rdma=ibfake1\"\ngpus = [1]\n[access]\numad = true\n")
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	const all = "rdma -j dev | jq -r '.[] | .ifname + \" \" + .node_guid' | sort; ls -l /dev/infiniband | awk '{print $1, $3, $4, $NF}' | sort"
	before, picture := vm.Run(t, all), vm.Picture(t)
	if strings.Count(before, " ") == 0 || !strings.Contains(before, "smi0") {
		t.Fatalf("the node has\n%s", before)
	}
	if scan := vm.Run(t, vm.Repo()+"/bin/gresnet scan"); strings.Contains(scan, "smi") {
		t.Errorf("scan has sub-devices:\n%s", scan)
	}
	if vm.Mode(t) == "exclusive" { // a move would hang
		if out, code := vm.ByHand(t, "prolog", "SLURM_JOB_ID=900155 SLURM_JOB_GPUS=0"); code != 1 || !strings.Contains(out, "ibfake0 has a sub-device, smi0, which keeps the kernel from moving it") {
			t.Errorf("exit %d: %s", code, out)
		}
		vm.Same(t, picture)
		return
	}
	for range 3 {
		vm.Must(t, "prolog", "SLURM_JOB_ID=900155 SLURM_JOB_GPUS=0,1")
		in := vm.Run(t, "ls /run/gresnet/jobs/900155/dev; cat /run/gresnet/jobs/900155/env")
		if strings.Count(in, "uverbs") < 2 || strings.Count(in, "umad") != 4 || strings.Contains(in, "smi") {
			t.Errorf("the job has\n%s", in)
		}
		vm.Must(t, "epilog", "SLURM_JOB_ID=900155 SLURM_JOB_GPUS=0,1")
		if after := vm.Run(t, all); after != before {
			t.Fatalf("the node had\n%s\nand has\n%s", before, after)
		}
		vm.Same(t, picture)
	}
}
