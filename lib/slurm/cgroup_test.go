package slurm_test

import (
	"testing"

	"gresnet/lib/slurm"
)

func TestACgroupConfIsRefusedForWhatTheInstalledSlurmDoesNotTake(t *testing.T) {
	for _, c := range []struct {
		version slurm.Version
		text    string
		want    string
	}{
		{0, "ConstrainCores=yes\nconstraindevices=YES\nConstrainKmemSpace=no\nCgroupSlice=x.slice\n", ""},
		{0, "ConstrainDevises=yes\n", "cgroup.conf:1: Slurm has no ConstrainDevises"},
		{0, "\nCgroupReleaseAgentDir=/etc/slurm/cgroup\n", "cgroup.conf:2: Slurm has no CgroupReleaseAgentDir"},
		{0, "ConstrainCores=yes ConstrainDevices=yes\n", "cgroup.conf:1: ConstrainCores is not alone in its line"},
		{0x160508, "AllowedKmemSpace=90\n", ""},
		{0x170b01, "AllowedKmemSpace=90\n", "cgroup.conf:1: Slurm 23.11 has no AllowedKmemSpace"},
		{0x160508, "EnableControllers=yes\n", "cgroup.conf:1: Slurm 22.05 has no EnableControllers"},
		{0x180b05, "EnableControllers=yes\nCgroupAutomount=yes\n", ""},
		{0x180b05, "EnableExtraControllers=rdma\n", "cgroup.conf:1: Slurm 24.11 has no EnableExtraControllers"},
		{0x190500, "EnableExtraControllers=rdma\n", ""},
		{0, "ConstrainDevices=TRUE\nConstrainCores=0\nAllowedRAMSpace=90.5\nMaxSwapPercent=Unlimited\nMinRAMSpace=30\nCgroupMountpoint=/x\n", ""},
		{0, "ConstrainDevices=maybe\n", "cgroup.conf:1: ConstrainDevices has another value than yes or no"},
		{0, "AllowedRAMSpace=90%\n", "cgroup.conf:1: AllowedRAMSpace has another value than a number"},
		{0, "MinRAMSpace=-1\n", "cgroup.conf:1: MinRAMSpace has another value than a number"},
	} {
		conf, err := slurm.ParseFile("cgroup.conf", c.text)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, err := range c.version.CgroupFaults(slurm.Conf(conf.Lines)) {
			got += err.Error()
		}
		if got != c.want {
			t.Errorf("%s, %q: %q, want %q", c.version, c.text, got, c.want)
		}
	}
}
