package lease

import (
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// Since 7.3 a namespace has each name once; before, the node has. What comes while a job
// has an HCA is named after the lowest name that is free, and may have that HCA's.
func TestAnHCAWhoseNameIsTakenComesHomeUnderAnotherAndIsRenamedWhenItCan(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	names := vm.HCAsWithGPUs(t)
	const addresses = "ip -o addr show up scope global | awk '{print $2, $4}' | sort"
	before, had := vm.Picture(t), vm.Run(t, addresses)
	other, name := vm.HCAs(t)[1], names[0]
	vm.Must(t, "prolog", vm.HomeJob)
	if _, err := vm.Try("rdma dev set " + other + " name " + name); err != nil {
		vm.Must(t, "epilog", vm.HomeJob)
		vm.Same(t, before)
		return // nobody can have it
	}
	for range 2 {
		out, code := vm.ByHand(t, "epilog", vm.HomeJob)
		if code != 2 || !strings.Contains(out, "to "+name+": another RDMA device has that name") {
			t.Fatalf("epilog: exit %d: %s", code, out)
		}
		if all := vm.Run(t, "ls /sys/class/infiniband | xargs"); !regexp.MustCompile(`\bgresnet[0-9]+\b`).MatchString(all) {
			t.Errorf("it is not at home under another name: %s", all)
		}
		if has := vm.Run(t, addresses); has != had {
			t.Errorf("the node's interfaces had\n%shave\n%s", had, has)
		}
	}
	if out, code := vm.ByHand(t, "prolog", "SLURM_JOB_ID=900061 SLURM_JOB_GPUS=0"); code != 1 || !strings.Contains(out, "quarantined") {
		t.Errorf("a later job's prolog: exit %d: %s", code, out)
	}
	vm.Run(t, "rdma dev set "+name+" name "+other)
	vm.Must(t, "epilog", vm.HomeJob)
	vm.Same(t, before)
}
