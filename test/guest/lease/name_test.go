package lease

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// Since 7.3 a namespace has each name once; before, the node has. What comes while a job
// has an HCA is named after the lowest name that is free, and may have that HCA's.
func TestAnHCAWhoseNameIsTakenIsReturnedUnderAnotherAndIsRenamedWhenItCan(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	names := vm.HCAsWithGPUs(t)
	const addresses = "ip -o addr show up scope global | awk '{print $2, $4}' | sort"
	before, had := vm.Picture(t), vm.Run(t, addresses)
	other, name := vm.HCAs(t)[1], names[0]
	vm.Must(t, "prolog", vm.ReturnJob)
	if _, err := vm.Try("rdma dev set " + other + " name " + name); err != nil {
		vm.Must(t, "epilog", vm.ReturnJob)
		vm.Same(t, before)
		return // nobody can have it
	}
	for range 2 {
		out, code := vm.ByHand(t, "epilog", vm.ReturnJob)
		if code != 2 || !strings.Contains(out, "to "+name+": another RDMA device has that name") {
			t.Fatalf("epilog: exit %d: %s", code, out)
		}
		if all := vm.Run(t, "ls /sys/class/infiniband | xargs"); !regexp.MustCompile(`\bgresnet[0-9]+\b`).MatchString(all) {
			t.Errorf("it is not on the node under another name: %s", all)
		}
		if has := vm.Run(t, addresses); has != had {
			t.Errorf("the node's interfaces had\n%shave\n%s", had, has)
		}
	}
	vm.IsRefused(t, 900061, "SLURM_JOB_GPUS=0", "quarantined")
	vm.Run(t, "rdma dev set "+name+" name "+other)
	vm.Must(t, "epilog", vm.ReturnJob)
	vm.Same(t, before)
}

// By root in a job, or by the site: before 7.3 an HCA keeps its name wherever it is, so that
// two that come back have each other's.
func TestHCAsWhoseNamesWereSwappedAreReturnedUnderTheirOwn(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	all := vm.HCAs(t)
	if len(all) < 3 {
		t.Fatalf("the node has %v", all)
	}
	config := "[slurm]\nsource = [\"gpu\"]\n"
	for n, name := range all[:3] {
		config += fmt.Sprintf("[[hca]]\nindex = %d\nmatch = \"rdma=%s\"\ngpus = [%[1]d]\n", n, name)
	}
	vm.WriteConfig(t, config)
	t.Cleanup(func() { vm.WriteConfig(t, vm.Config) })
	before := vm.Picture(t)
	const job = "SLURM_JOB_ID=900062 SLURM_JOB_GPUS=0,1,2"
	for name, becomes := range map[string][3]int{
		"two":            {1, 0, 2},
		"two not in row": {2, 1, 0},
		"three":          {1, 2, 0},
		"three, back":    {2, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rename := func(of, to func(n int) string) (commands string) {
				for n := range becomes {
					commands += "rdma dev set " + of(n) + " name " + to(n) + "\n"
				}
				return commands
			}
			own := func(n int) string { return all[n] }
			between := func(n int) string { return fmt.Sprintf("between%d", n) }
			other := func(n int) string { return all[becomes[n]] }
			vm.Must(t, "prolog", job)
			where := ""
			if vm.IsExclusive(t) {
				where = "nsenter --net=/run/gresnet/jobs/900062/netns "
			}
			vm.Run(t, where+"bash -ec "+vm.Quote(rename(own, between)+rename(between, other)))
			vm.Must(t, "epilog", job)
			if !vm.IsExclusive(t) { // it was the node's own devices that were renamed, and no lease's
				vm.Run(t, rename(other, between)+rename(between, own))
			}
			vm.Same(t, before)
		})
	}
}
