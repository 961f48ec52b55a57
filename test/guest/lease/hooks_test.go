package lease

import (
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const (
	hookJob  = "SLURM_JOB_ID=900096 SLURM_JOB_GPUS=0"
	hookFile = "/var/lib/site-hook"
	hookTold = "/run/site-hook.told"
)

// withHook has one program of the site's run for both ends of a lease.
func withHook(t *testing.T, fault, text string) (hca string) {
	t.Helper()
	hca = withOperation(t, "[hooks]\nready = \""+hookFile+"\"\nleave = \""+hookFile+"\"\nfault = \""+fault+"\"\n")[0]
	vm.Run(t, "rm -f "+hookTold+"; printf '#!/bin/sh -e\\n%s\\n' "+vm.Quote("echo $GRESNET_HOOK $SLURM_JOB_ID $GRESNET_HCAS >>"+hookTold+"\n"+text)+" >"+hookFile+"; chmod 755 "+hookFile)
	t.Cleanup(func() { vm.Run(t, "rm -f "+hookFile+" "+hookTold) })
	return hca
}

// sees opens the job's HCA as a program of verbs does, and finds its interface in the same network.
const sees = `cd /sys/class/infiniband/$GRESNET_HCAS
rdma link show | grep -q "^link $GRESNET_HCAS/1 "
[ "$(ip -o link show | wc -l)" -eq 2 ] # with lo
for v in /sys/class/infiniband_verbs/uverbs*; do
	[ "$(cat $v/ibdev)" != $GRESNET_HCAS ] || exec 3<>/dev/infiniband/${v##*/}
done
: <&3`

func TestASitesProgramOpensTheJobsHCAInTheJobsNetwork(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	hca := withHook(t, "node", sees)
	before := vm.Picture(t)
	vm.Must(t, "prolog", hookJob)
	vm.Must(t, "epilog", hookJob)
	if told, want := vm.Run(t, "cat "+hookTold), "ready 900096 "+hca+"\nleave 900096 "+hca+"\n"; told != want {
		t.Errorf("it was told %q, wanted %q", told, want)
	}
	vm.Same(t, before)
}

func TestASitesProgramThatFailsRefusesTheJobOrDrainsTheNodeAsTheSiteSays(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	for fault, exit := range map[string]int{"job": 0, "node": 1} {
		withHook(t, fault, "[ $GRESNET_HOOK = leave ] || { setsid sleep 1000 & echo no loopback; exit 3; }")
		before := vm.Picture(t)
		out, code := vm.ByHand(t, "prolog", hookJob)
		if code != exit || (exit != 0) != strings.Contains(out, "no loopback") {
			t.Errorf("%s: the prolog: exit %d: %s", fault, code, out)
		}
		if env, _ := vm.Try("grep ^GRESNET_REFUSED= /run/gresnet/jobs/900096/env"); (exit == 0) != strings.Contains(env, "no loopback") {
			t.Errorf("%s: the lease is refused with %q", fault, env)
		}
		vm.Must(t, "epilog", hookJob)
		if told := vm.Run(t, "cut -d' ' -f1 "+hookTold); told != "ready\nleave\n" {
			t.Errorf("%s: it was told %q", fault, told)
		}
		vm.Same(t, before)
	}
}
