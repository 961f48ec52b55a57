package network

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// clusterOnly is a firewall that lets ssh in.
const clusterOnly = `nft -f - <<T
table inet site {
	chain input {
		type filter hook input priority 0; policy drop;
		ct state vmap { established : accept, related : accept, invalid : drop }
		iifname lo accept
		tcp dport 22 accept
	}
}
T`

func TestCheckNamesAFirewallThatKeepsJobsFromSlurmdOfTheirNode(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	names := vm.HCAsWithGPUs(t)
	gpus := strings.NewReplacer("HCA0", names[0], "HCA1", names[1]).Replace(vm.GPUConfig)
	vm.WriteConfig(t, gpus+"\n[uplink]\nkind = \"auto\"\n")
	const job = "SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0"
	vm.Must(t, "prolog", job)
	t.Cleanup(func() { vm.Run(t, "nft delete table inet site"); vm.Must(t, "epilog", job) })
	reaches := func(patience time.Duration) bool {
		_, err := vm.Try(fmt.Sprintf("nsenter --net=/run/gresnet/jobs/900070/netns timeout %.0f bash -c 'exec 3<>/dev/tcp/192.0.2.1/6818'", patience.Seconds()))
		return err == nil
	}
	says := func() string {
		out, _ := vm.Command(t, "gresnet check")
		var lines string
		for line := range strings.Lines(out) {
			if strings.Contains(line, " firewall: ") {
				lines += line
			}
		}
		return lines
	}
	if said := says(); !reaches(vm.Slow(time.Minute)) || said != "" {
		t.Errorf("without a firewall, check says %s", said)
	}
	vm.Run(t, clusterOnly)
	said := says()
	if reaches(vm.Slow(3*time.Second)) || !strings.Contains(said, "the node drops what jobs send to slurmd of their own node") {
		t.Errorf("with a firewall, check says\n%s", said)
	}
	const rule = `insert rule inet site input tcp dport 6818 accept; insert rule inet site input udp dport 489 accept`
	vm.Run(t, "nft '"+rule+"'")
	if said := says(); !reaches(vm.Slow(time.Minute)) || said != "" {
		t.Errorf("with the rule %s, check says %s", rule, said)
	}
}
