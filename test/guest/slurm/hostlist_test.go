package slurm

import (
	"strings"
	"testing"

	"gresnet/lib/slurm"
	"gresnet/test/guest/vm"
)

func TestHostlistsAreSpelledOutAsSlurmDoes(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	for _, list := range []string{
		"node1", "a,b,c", "node[1-3,7],gpu05", "a[1-3,07-09],c", "n[08-11]", "n[098-102]", "rack[0-1]n[01-16]", "r[1-12][0-3]", "c,a,c",
		"r[1-2]n[08-10],login", "n[3,1-2],n[1-2]",
	} {
		l, err := slurm.ParseHostlist(list)
		if err != nil {
			t.Errorf("%q: %v", list, err)
			continue
		}
		names, err := l.Names(1000)
		if got, want := strings.Join(names, "\n")+"\n", vm.Run(t, "scontrol show hostnames "+vm.Quote(list)); err != nil || got != want {
			t.Errorf("%q is %q, %v; Slurm has %q", list, got, err, want)
		}
	}
}
