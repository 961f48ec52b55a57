package parts

import (
	"fmt"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// ofVF returns what the RoCE PF has on record of a VF.
func ofVF(t *testing.T, number int) string {
	t.Helper()
	for line := range strings.Lines(vm.Run(t, "ip link show "+roceLink)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, fmt.Sprintf("vf %d ", number)) {
			return line
		}
	}
	t.Fatalf("%s has no VF %d", roceLink, number)
	return ""
}

// siteVF is what a site says of each VF, and physicsVF what a policy says of those of an account.
const (
	siteVF    = "gpus = [0, 1, 2]\nvf = {vlan = 7, max_rate = 5000, spoof_check = true, state = \"enable\"}\n"
	physicsVF = "[[policy]]\naccount = \"physics\"\nvf = {vlan = 100, qos = 3, proto = \"802.1ad\", trust = true}\n"
)

func TestAVFHasWhatTheSiteSaysWhileAJobHasIt(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.VF)
	boot(t, inParts(3, siteVF, "vf = {state = \"enable\"}\n")+physicsVF)
	vm.Run(t, "ip link set "+roceLink+" vf 1 min_tx_rate 5 max_tx_rate 100 vlan 3")
	before := vm.Picture(t)
	other := ofVF(t, 0)
	for _, c := range []struct {
		account string
		want    []string
	}{
		{"biology", []string{"vlan 7,", "max_tx_rate 5000Mbps, min_tx_rate 5Mbps", "spoof checking on", "link-state enable", "trust off"}},
		{"physics", []string{"vlan 100, qos 3, vlan protocol 802.1ad", "max_tx_rate 5000Mbps", "trust on"}},
	} {
		job := "SLURM_JOB_ID=900204 SLURM_JOB_GPUS=1 SLURM_JOB_ACCOUNT=" + c.account
		vm.Must(t, "prolog", job)
		now := ofVF(t, 1)
		for _, want := range c.want {
			if !strings.Contains(now, want) {
				t.Errorf("%s: VF 1 has no %q: %s", c.account, want, now)
			}
		}
		if now := ofVF(t, 0); now != other {
			t.Errorf("%s: VF 0 had %s, and has %s", c.account, other, now)
		}
		// One that its PF trusts: the PF has it on record then.
		inJob(t, "900204", "ip link set "+roceLink+"v1 down; ip link set "+roceLink+"v1 address 02:00:00:00:00:99")
		if now, trusted := ofVF(t, 1), c.account == "physics"; strings.Contains(now, "02:00:00:00:00:99") != trusted {
			t.Errorf("%s: the PF has on record %s", c.account, now)
		}
		vm.Must(t, "epilog", job)
		vm.Same(t, before)
	}
}

// The driver does not take a minimum above the maximum, which is the node's own.
func TestWhatAPFsDriverRefusesFailsThePrologBeforeAnythingElse(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.VF)
	boot(t, inParts(2, "gpus = [0, 1]\nvf = {vlan = 100, min_rate = 500}\n", "gpus = [2, 3]\nvf = {trust = true}\n"))
	vm.Run(t, "ip link set "+roceLink+" vf 1 max_tx_rate 100")
	before := vm.Picture(t)
	out, code := vm.ByHand(t, "prolog", "SLURM_JOB_ID=900205 SLURM_JOB_GPUS=1")
	vm.NodesFault(t, out, code, "set rate from 500 to 100 Mbit/s of VF 1 of "+roceLink)
	if vm.Same(t, before); strings.Contains(out, "namespace") {
		t.Errorf("it made a namespace before: %s", out)
	}
	vm.Must(t, "epilog", "SLURM_JOB_ID=900205")
	// Users choose what they ask for: that must not drain the node.
	vm.ByHand(t, "prolog", "SLURM_JOB_ID=900205 SLURM_JOB_GPUS=2")
	if env := vm.Run(t, "cat /run/gresnet/jobs/900205/env"); !strings.Contains(env, "\nGRESNET_REFUSED=vf of the site's configuration: "+ibLink+" is InfiniBand") {
		t.Errorf("the lease is not refused:\n%s", env)
	}
	vm.Must(t, "epilog", "SLURM_JOB_ID=900205")
	vm.Same(t, before)
	out, _ = vm.Try(vm.Repo() + "/bin/gresnet check")
	if !strings.Contains(out, ibLink+" is InfiniBand") {
		t.Errorf("check says\n%s", out)
	}
}
