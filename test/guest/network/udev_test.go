package network

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

func TestUdevStartsSystemdSysctlForAnHCAsInterfaceAndNotForTheNodesEndOfAWayOut(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.WithGPUs(t)
	vm.WriteConfig(t, vm.Run(t, "cat /etc/gresnet/gresnet.toml")+"\n[uplink]\nkind = \"auto\"\n")
	const (
		job     = "SLURM_JOB_ID=900073 SLURM_JOB_GPUS=0,1 SLURM_NODELIST=node1 "
		program = "/usr/lib/systemd/systemd-sysctl"
		rules   = "/run/udev/rules.d/90-gresnet.rules"
	)
	vm.Run(t, `printf '#!/bin/sh\necho "$1" >>/tmp/started\n' >/tmp/sysctl; chmod 755 /tmp/sysctl; mount --bind /tmp/sysctl `+program)
	t.Cleanup(func() {
		vm.Run(t, "umount "+program+"; rm -f /tmp/started /tmp/sysctl "+rules+"; udevadm control --reload")
	})
	// interfaces returns those for which the program was started while a job had a way out, and when it had ended.
	interfaces := func() string {
		vm.Run(t, "udevadm control --reload; udevadm settle; rm -f /tmp/started")
		vm.Must(t, "prolog", job)
		vm.Run(t, "udevadm settle; ip link show dev job900073")
		vm.Must(t, "epilog", job)
		return vm.Run(t, "udevadm settle; sort /tmp/started")
	}
	without := interfaces()
	if !strings.Contains(without, "/job900073\n") {
		t.Errorf("without the package's rule it was started for\n%s", without)
	}
	vm.Run(t, "install -D -m 644 "+vm.Repo()+"/packaging/systemd/udev.rules "+rules)
	if with := interfaces(); with == "" || with != strings.ReplaceAll(without, "--prefix=/net/ipv4/conf/job900073\n", "") {
		t.Errorf("without the package's rule it was started for\n%s\nwith it for\n%s", without, with)
	}
}
