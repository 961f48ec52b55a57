package lease

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// The interfaces of InfiniBand are made again in exclusive mode, and have other indices then.
func TestWhatTwoJobsShareComesBackWithTheLastOfThem(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	all := vm.HCAs(t)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	const jobA, jobB = "SLURM_JOB_ID=900055 SLURM_JOB_GPUS=0", "SLURM_JOB_ID=900056 SLURM_JOB_GPUS=1"
	for kind, pair := range map[string][2]string{"of each kind": {all[0], all[len(all)-1]}, "of one kind": {all[len(all)-2], all[len(all)-1]}} {
		t.Run(kind, func(t *testing.T) {
			vm.WriteConfig(t, strings.NewReplacer("HCA0", pair[0], "HCA1", pair[1]).Replace(vm.GPUConfig))
			a, b := linkOf(t, pair[0]), linkOf(t, pair[1])
			share := fmt.Sprintf(`ip route add 172.30.0.0/16 nexthop via 10.250.0.1 dev %[1]s onlink nexthop via 10.251.0.1 dev %[2]s onlink weight 3
ip route add 172.31.0.0/16 via 10.251.0.1 dev %[2]s onlink src $(ip -j -4 addr show dev %[1]s | jq -r '.[0].addr_info[0].local')
`, a, b)
			forget := "ip route del 172.30.0.0/16; ip route del 172.31.0.0/16\n"
			if kind == "of one kind" { // without a carrier the kernel takes no next hop objects
				share += fmt.Sprintf("ip nexthop add id 71 dev %s; ip nexthop add id 72 dev %s; ip nexthop add id 73 group 71/72; ip route add 172.29.0.0/16 nhid 73", a, b)
				forget += "ip route del 172.29.0.0/16; ip nexthop del id 73; ip nexthop del id 72; ip nexthop del id 71"
			}
			vm.Run(t, share)
			defer vm.Run(t, forget)
			before := vm.Picture(t)
			for name, ends := range map[string][2]string{"the first ends first": {jobA, jobB}, "the first ends last": {jobB, jobA}} {
				t.Run(name, func(t *testing.T) {
					vm.Must(t, "prolog", jobA)
					vm.Must(t, "prolog", jobB)
					vm.Must(t, "epilog", ends[0])
					out, code := vm.Command(t, "gresnet status")
					if owed := strings.Contains(out, a+" is owed what it shares with "+b); code != 0 || owed != (ends[0] == jobA) {
						t.Errorf("status: exit %d:\n%s", code, out)
					}
					vm.Must(t, "epilog", ends[1])
					vm.Same(t, before)
				})
			}
		})
	}
}
