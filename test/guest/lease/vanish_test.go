package lease

import (
	"os/exec"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

const vanishJob = "SLURM_JOB_ID=900150 SLURM_JOB_GPUS=0"

// vanish0 is the interface of ibfake0 and no driver's of its: it stays when its HCA goes.
const vanishUp = `
modprobe -r ibfake
ip link add vanish0 type veth peer name vanish1
ip link set vanish1 up
ip link set vanish0 mtu 1400 alias 'rail 0'
ip link property add dev vanish0 altname rail0
sysctl -qw net.ipv6.conf.vanish0.accept_dad=0 net.ipv4.conf.vanish0.rp_filter=2
ip link set vanish0 up
ip addr add 10.77.0.2/24 dev vanish0
ip -6 addr add fd00:77::2/64 dev vanish0 nodad
ip route add 172.16.77.0/24 via 10.77.0.1 dev vanish0 metric 77
ip rule add from 10.77.0.2 table 177 pref 177
ip route add default via 10.77.0.1 dev vanish0 table 177
modprobe ibfake nroce=1 nic=vanish0
udevadm settle
` + vm.ForgetTable + ` # it would know the HCAs of before
`

const vanishDown = `
modprobe -r ibfake
ip rule del pref 177
ip link del vanish0
` + vm.ForgetTable + `
modprobe ibfake OPTIONS
udevadm settle
`

const (
	unbindVanish = "echo ibfake.0 >/sys/bus/platform/drivers/ibfake/unbind"
	bindVanish   = "echo ibfake.0 >/sys/bus/platform/drivers/ibfake/bind"
)

// vanishing makes a node whose only HCA can go without its interface.
func vanishing(t *testing.T) {
	t.Helper()
	vm.Slurm(t)
	options := strings.TrimSpace(vm.Run(t, "cd /sys/module/ibfake/parameters; grep -H . nib nroce nmin | tr : = | xargs"))
	vm.Run(t, vanishUp)
	t.Cleanup(func() {
		vm.Run(t, strings.ReplaceAll(vanishDown, "OPTIONS", options)+vm.Dress+vm.Repo()+"/bin/gresnet close")
		vm.WriteConfig(t, vm.Config)
	})
	vm.WriteConfig(t, "[slurm]\nsource = [\"gpu\"]\n[[hca]]\nindex = 0\nmatch = \"rdma=ibfake0\"\ngpus = [0]\n")
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
}

// ofVanish returns all that the node has of the interface.
func ofVanish(t *testing.T) string {
	t.Helper()
	return vm.Run(t, `ip -d addr show dev vanish0 | sed 's/ qdisc [a-z]*//'; ip -4 route show table all dev vanish0; ip -6 route show table all dev vanish0; ip rule
grep -s . /proc/sys/net/ipv4/conf/vanish0/* /proc/sys/net/ipv6/conf/vanish0/* || [ $? = 2 ]`)
}

func TestAnInterfaceOutlivesItsRDMADeviceAndIsReturnedWithItsSettings(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vanishing(t)
	before := ofVanish(t)
	vm.Must(t, "prolog", vanishJob)
	vm.Run(t, unbindVanish)
	out, err := vm.Try("rc=0; " + vm.SlurmdEnv + vanishJob + " " + vm.Repo() + "/bin/gresnet-epilog --trace 2>&1 || rc=$?; echo \"exit $rc\"")
	t.Log(out)
	for _, want := range []string{"exit 2", "ibfake0", "any more"} {
		if !strings.Contains(out, want) {
			t.Errorf("the epilog (%v) says, without %q:\n%s", err, want, out)
		}
	}
	if strings.Contains(out, "vanish0 with its settings") {
		t.Errorf("the interface is said to be lost, though it is back:\n%s", out)
	}
	if now := ofVanish(t); now != before {
		t.Errorf("the interface had\n%s\nand has\n%s", before, now)
	}
	if out := vm.Run(t, "ls /run/gresnet/jobs") + vm.Jq(t, ".claims[].quarantined"); !strings.HasPrefix(out, "the node lost it ") || strings.Count(out, "\n") != 1 {
		t.Errorf("left are %s", out)
	}
	vm.Must(t, "epilog", vanishJob) // it was said once
	vm.Run(t, bindVanish+"; udevadm settle; "+vm.Repo()+"/bin/gresnet close")
	vm.Must(t, "prolog", vanishJob)
	vm.Must(t, "epilog", vanishJob)
	if now := ofVanish(t); now != before {
		t.Errorf("the interface had\n%s\nand has after another job\n%s", before, now)
	}
}

func TestADriverThatRecoversWhileTheEpilogWaitsLosesNothing(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long) // a slow machine may need longer than a driver has
	names := vm.HCAsWithGPUs(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.ReturnJob)
	driver := "echo ibfake." + strings.TrimPrefix(names[0], "ibfake") + " >/sys/bus/platform/drivers/ibfake/"
	vm.Run(t, driver+"unbind")
	var out strings.Builder
	epilog := exec.Command("bash", "-c", vm.SlurmdEnv+vm.ReturnJob+" "+vm.Repo()+"/bin/gresnet-epilog")
	epilog.Stdout, epilog.Stderr = &out, &out
	if err := epilog.Start(); err != nil {
		t.Fatal(err)
	}
	vm.Eventually(t, "the epilog is at work", func() bool {
		_, err := vm.Try("[ -e /run/gresnet/jobs/900060/journal ] && ! [ -e /run/gresnet/jobs/900060/env ]")
		return err == nil
	})
	vm.Run(t, driver+"bind")
	if err := epilog.Wait(); err != nil || out.String() != "" {
		t.Errorf("epilog: %v: %s", err, out.String())
	}
	// The device that was bound again comes last among the kernel's.
	if now := vm.Picture(t); vm.Sorted(now) != vm.Sorted(before) {
		vm.Same(t, before)
	}
}
