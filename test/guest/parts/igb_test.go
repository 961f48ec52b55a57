package parts

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

// bootIGB splits the NIC of test/vm/vm's --igb into three VFs. VF n serves GPU n. The end of the test
// makes the NIC whole again. The VFs have a link while the NIC's own interface is up.
func bootIGB(t *testing.T, more string) {
	t.Helper()
	t.Cleanup(func() {
		for n := range 3 {
			vm.ByHand(t, "epilog", igbJob(n, "x"))
		}
		vm.WriteConfig(t, vm.Config)
		vm.Run(t, "echo 0 >/sys/bus/pci/devices/"+rocePF+"/sriov_numvfs; udevadm settle; "+vm.ForgetTable+"; "+vm.Repo()+"/bin/gresnet close")
	})
	giveIGB(t, more)
	vm.Run(t, vm.ForgetTable+"; ip link set "+roceLink+" up")
	vm.Run(t, vm.Repo()+"/bin/gresnet boot")
	if has := vm.Run(t, "ip link show "+roceLink); strings.Contains(has, "ether 00:00") {
		t.Fatalf("a VF has no MAC:\n%s", has)
	}
	// The node's own.
	vm.Run(t, "for n in 0 1 2; do i="+roceLink+"v$n; ip link set $i up; ip addr add 10.20.$n.2/24 dev $i; ip route add 172.20.$n.0/24 via 10.20.$n.1 dev $i metric 77; done; while ip -6 addr | grep -q tentative; do sleep 0.1; done")
	withCarrier(t, "", 0, 1, 2)
}

func giveIGB(t *testing.T, more string) {
	t.Helper()
	vm.WriteConfig(t, fmt.Sprintf("[slurm]\nsource = [\"gpu\"]\n[[hca]]\nindex = 0\npart = \"vf\"\ncount = 3\nmatch = \"pci=%s\"\ngpus = [0, 1, 2]\n%s", rocePF, more))
}

// igbJob returns the job that has VF n, by an account.
func igbJob(n int, account string) string {
	return fmt.Sprintf("SLURM_JOB_ID=90040%d SLURM_JOB_GPUS=%[1]d SLURM_JOB_ACCOUNT=%s", n, account)
}

// inIGBJob runs a command in the namespace of the job that has VF n.
func inIGBJob(t *testing.T, n int, command string) string {
	t.Helper()
	return inJob(t, fmt.Sprintf("90040%d", n), command)
}

// withCarrier waits until VFs have one: a driver asks its PF for it a second after a reset.
func withCarrier(t *testing.T, enter string, vfs ...int) {
	t.Helper()
	for _, n := range vfs {
		vm.Eventually(t, fmt.Sprintf("VF %d has a carrier", n), func() bool {
			out, _ := vm.Try(enter + fmt.Sprintf("ip link show %sv%d", roceLink, n))
			return strings.Contains(out, "LOWER_UP")
		})
	}
}

// reaches tells whether one job gets answers from the one that has another VF.
func reaches(from, to int) bool {
	_, err := vm.Try(fmt.Sprintf("nsenter --net=/run/gresnet/jobs/90040%d/netns ping -n -c 3 -W 3 10.21.0.%d", from, to+1))
	return err == nil
}

func TestJobsReachEachOtherByVFsOfOneVLANAndNotOfTwo(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.IGB)
	bootIGB(t, "vf = {vlan = 100}\n[[policy]]\naccount = \"other\"\nvf = {vlan = 200}\n")
	before := vm.Picture(t)
	// The third job's addresses are the same each time: its VLAN alone decides.
	for _, third := range []string{"one", "other", "one"} {
		for n, account := range []string{"one", "one", third} {
			vm.Must(t, "prolog", igbJob(n, account))
			link := fmt.Sprintf("%sv%d", roceLink, n)
			inIGBJob(t, n, fmt.Sprintf("ip addr flush dev %s; ip addr add 10.21.0.%d/24 dev %[1]s; ip link set %[1]s up", link, n+1))
			withCarrier(t, fmt.Sprintf("nsenter --net=/run/gresnet/jobs/90040%d/netns ", n), n)
		}
		vm.Eventually(t, "jobs of one VLAN reach each other", func() bool { return reaches(0, 1) && reaches(1, 0) })
		if third == "one" {
			vm.Eventually(t, "the third job of the VLAN reaches both", func() bool { return reaches(2, 0) && reaches(1, 2) })
		} else if reaches(2, 0) || reaches(1, 2) {
			t.Errorf("jobs of two VLANs reach each other:\n%s", vm.Run(t, "ip link show "+roceLink))
		}
		for n := range 3 {
			vm.Must(t, "epilog", igbJob(n, third))
		}
		vm.Same(t, before)
	}
}

func TestARealDriverTakesWhatASiteSaysOfItsVFsOrThePrologFailsAndChangesNothing(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.IGB)
	bootIGB(t, "")
	before, others := vm.Picture(t), ofVF(t, 0)+ofVF(t, 2)
	job := igbJob(1, "x")
	for _, c := range []struct{ vf, has, refused string }{
		{vf: "vlan = 100, qos = 3", has: "vlan 100, qos 3,"},
		{vf: "max_rate = 100", has: "max_tx_rate 100Mbps"},
		{vf: "spoof_check = false", has: "spoof checking off"},
		{vf: "trust = true", has: "trust on"},
		{vf: "vlan = 7, max_rate = 50, spoof_check = true, trust = true", has: "vlan 7, tx rate 50 (Mbps), max_tx_rate 50Mbps, spoof checking on, link-state auto, trust on"},
		{vf: "vlan = 100, proto = \"802.1ad\"", refused: "set vlan 100 qos 0 proto 802.1ad of VF 1 of " + roceLink + ": protocol not supported"},
		{vf: "min_rate = 10, max_rate = 100", refused: "set rate from 10 to 100 Mbit/s of VF 1 of " + roceLink + ": invalid argument"},
		{vf: "state = \"enable\"", refused: "set state enable of VF 1 of " + roceLink + ": operation not supported"},
		{vf: "vlan = 100, trust = true, state = \"enable\"", refused: "set state enable of VF 1 of " + roceLink + ": operation not supported"},
	} {
		giveIGB(t, "vf = {"+c.vf+"}\n")
		out, code := vm.ByHand(t, "prolog", job)
		if c.refused != "" {
			vm.NodesFault(t, out, code, c.refused)
			vm.Same(t, before)
			continue
		}
		if now := ofVF(t, 1); code != 0 || !strings.Contains(now, c.has) {
			t.Errorf("%s: exit %d, %sVF 1 has %s", c.vf, code, out, now)
		}
		if now := ofVF(t, 0) + ofVF(t, 2); now != others {
			t.Errorf("%s: the other VFs had %s and have %s", c.vf, others, now)
		}
		vm.Must(t, "epilog", job)
		vm.Same(t, before)
	}
}

// A reset, as that of an interface that goes down, makes the MAC that a VF has the one that its driver
// calls permanent, which docs/restore.md says is left.
func TestATrustedVFOfARealDriverIsReturnedWithTheMACThatItHad(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.IGB)
	bootIGB(t, "vf = {trust = true}\n")
	picture := func() string {
		return regexp.MustCompile(`"permaddr":"[^"]*",`).ReplaceAllString(vm.Picture(t), "")
	}
	before := picture()
	link, job := roceLink+"v1", igbJob(1, "x")
	for _, change := range []string{"true", "ip link set LINK address MAC", "ip link set LINK down; ip link set LINK address MAC; ip link set LINK up; ip link set LINK down", "ip link set LINK down; ip link set LINK address MAC; ip link set LINK up; ip link set LINK down; ip link set LINK up name other0"} {
		vm.Must(t, "prolog", job)
		inIGBJob(t, 1, "ip link set "+link+" up; "+strings.NewReplacer("LINK", link, "MAC", "02:00:00:00:00:99").Replace(change))
		if now := ofVF(t, 1); strings.Contains(now, "02:00:00:00:00:99") != (change != "true") {
			t.Errorf("%s: its PF has on record %s", change, now)
		}
		vm.Must(t, "epilog", job)
		if diff := netnstest.Diff(before, picture()); diff != "" {
			t.Errorf("after %s the node is not as it was, before (-) and after (+):\n%s", change, diff)
		}
	}
}

func TestAVFOfARealDriverThatVanishesFromItsJobIsGoneAndNothingElse(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.IGB)
	bootIGB(t, "vf = {vlan = 100}\n")
	macs := func() string { return vm.Run(t, "cat /sys/class/net/"+roceLink+"v[012]/address") }
	was := macs()
	vm.Must(t, "prolog", igbJob(1, "x"))
	inIGBJob(t, 1, "ip link set "+roceLink+"v1 up")
	vm.Run(t, "echo 0 >/sys/bus/pci/devices/"+rocePF+"/sriov_numvfs")
	if left := inIGBJob(t, 1, "ip -o link"); strings.Contains(left, roceLink) {
		t.Errorf("the job has\n%s", left)
	}
	out, code := vm.ByHand(t, "epilog", igbJob(1, "x"))
	if code != 2 || !strings.Contains(out, "the node does not have it any more") {
		t.Errorf("the epilog exits with %d and says %s", code, out)
	}
	if left := vm.Run(t, "ls /run/gresnet/jobs") + vm.Jq(t, ".claims[]"); left != "" {
		t.Errorf("left are %s", left)
	}
	vm.Must(t, "epilog", igbJob(1, "x")) // it was said once
	// The next boot makes the same ones again.
	vm.Run(t, vm.Repo()+"/bin/gresnet boot")
	if is := macs(); was != is {
		t.Errorf("the VFs had the MACs %s and have %s", was, is)
	}
	before := vm.Picture(t)
	vm.Must(t, "prolog", igbJob(1, "x"))
	vm.Must(t, "epilog", igbJob(1, "x"))
	vm.Same(t, before)
}
