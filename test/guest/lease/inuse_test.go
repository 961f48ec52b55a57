package lease

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const inUseJob = "SLURM_JOB_ID=900095 SLURM_JOB_GPUS=0,1"

func TestAnyoneCanReadWhichHCAsJobsHave(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	names := vm.WithGPUs(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", inUseJob)
	var interfaces []string
	for i, line := range strings.Split(strings.TrimSpace(vm.As(t, "alice", "cat /run/gresnet/in-use")), "\n") {
		f := strings.Fields(line)
		if len(f) != 4 || i > 1 || f[0] != names[i] || f[1] != "-" || f[3] != "900095" {
			t.Fatalf("line %d is %q, the HCAs are %v", i, line, names[:2])
		}
		interfaces = append(interfaces, f[2])
		vm.Run(t, "nsenter --net=/run/gresnet/jobs/900095/netns ip link show "+f[2])
	}
	vm.Must(t, "epilog", inUseJob)
	vm.Same(t, before)
	all := vm.Moments(t, "prolog", inUseJob)
	vm.Must(t, "epilog", inUseJob)
	for _, m := range all {
		vm.KillAt(t, "prolog", inUseJob, m)
		inUse, err := vm.InUse()
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range interfaces {
			_, away := vm.Try("ip link show " + name)
			if line := fmt.Sprintf("%s - %s 900095\n", names[i], name); away != nil && !strings.Contains(inUse, line) {
				t.Errorf("%s: %s is away, and the list has\n%s", m, name, inUse)
			}
		}
		vm.Must(t, "epilog", inUseJob)
		if vm.Same(t, before); t.Failed() {
			t.Fatal(m)
		}
	}
}
