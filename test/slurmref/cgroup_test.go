package slurmref

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gresnet/lib/slurm"
)

func TestOfCgroupConfSlurmdRefusesTheKeysAndValuesThatCheckRefuses(t *testing.T) {
	for _, suite := range Suites() {
		t.Run(suite, func(t *testing.T) {
			d := StartDaemon(t, suite)
			version, known := slurm.InstalledVersion(os.DirFS(d.root), []string{"/" + plugins})
			if !known {
				t.Fatal("its version is not known")
			}
			d.Write("slurm.conf", d.Conf("NodeName=n1 CPUs=1 Gres=nic:1\n"))
			d.Write("gres.conf", "Name=nic File=/g/nic0\n")
			const keys = "ConstrainCores=yes ConstrainDevices=no ConstrainRAMSpace=no ConstrainSwapSpace=no AllowedRAMSpace=100 AllowedSwapSpace=0 " +
				"MaxRAMPercent=90 MaxSwapPercent=90 MinRAMSpace=30 MemorySwappiness=1 AllowedDevicesFile=/x CgroupMountpoint=/tmp IgnoreSystemd=no " +
				"IgnoreSystemdOnFailure=no MemoryLimitEnforcement=no MemoryLimitThreshold=100 CgroupAutomount=no " +
				"EnableControllers=no SignalChildrenProcesses=no SystemdTimeout=1000 CgroupSlice=a.slice EnableExtraControllers=rdma CgroupJobIdPaths=yes " +
				"AllowedKmemSpace=1 ConstrainKmemSpace=no MaxKmemPercent=90 MinKmemSpace=30 CgroupReleaseAgentDir=/x TaskAffinity=no ConstrainDevises=yes " +
				"ConstrainDevices=True ConstrainDevices=maybe ConstrainCores=2 AllowedRAMSpace=90% AllowedRAMSpace=infinite AllowedSwapSpace=1.5 " +
				"MinRAMSpace=-1 MinRAMSpace=1.5 MinRAMSpace=0x10 MemorySwappiness=much MemorySwappiness=UNLIMITED MaxRAMPercent=all"
			for _, line := range append(strings.Fields(keys), "ConstrainCores=yes ConstrainDevices=no") {
				text := fmt.Sprintf("CgroupPlugin=%s\n%s\n", d.plugin, line)
				d.Write("cgroup.conf", text)
				conf, err := slurm.ParseFile("cgroup.conf", text)
				if err != nil {
					t.Fatal(err)
				}
				faults := version.CgroupFaults(slurm.Conf(conf.Lines))
				if all, why := d.Gres("nic"); (why == "") != (len(faults) == 0) {
					t.Errorf("%s: slurmd %s has %q, %s; check has %v", line, version, all, why, faults)
				}
			}
		})
	}
}
