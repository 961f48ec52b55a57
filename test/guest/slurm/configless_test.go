package slurm

import (
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// ofController is where slurmctld has Slurm's files on a host that has none in /etc/slurm.
const ofController = "/srv/controller"

// stopSlurm ends both daemons, those that are there.
const stopSlurm = `for d in slurmd slurmctld; do
	pid=$(cat /run/$d.pid 2>/dev/null) && kill "$pid" 2>/dev/null && timeout 60 tail --pid="$pid" -s 0.1 -f /dev/null
done
rm -rf /run/slurm /var/spool/slurmd/conf-cache
`

// withoutFiles takes Slurm's files from the node and gresnet's lines from the controller's, and has the
// programs where packages have them.
func withoutFiles(t *testing.T) {
	t.Helper()
	vm.RestartSlurm(t, "--conf SlurmctldParameters=enable_configless")
	plugins := strings.TrimSpace(vm.Run(t, "scontrol show config | sed -n 's/^PluginDir *= //p'"))
	vm.Run(t, "cp "+vm.Repo()+"/bin/gresnet "+vm.Repo()+"/bin/gresnet-prolog "+vm.Repo()+"/bin/gresnet-epilog /usr/sbin; cp /usr/local/lib/gresnet/spank_gresnet.so "+plugins)
	vm.Run(t, stopSlurm+"mv /etc/slurm "+ofController+"; cd "+ofController+`
sed -i '/^PrologFlags=/d; /^Prolog=/d; /^Epilog=/d; s/^GresTypes=.*/GresTypes=gpu/; s/,nic:[0-9]*//' slurm.conf
sed -i '/^Name=nic/d' gres.conf
: >plugstack.conf`)
	t.Cleanup(func() {
		vm.Run(t, "/usr/sbin/gresnet setup --undo; rm -f /run/gresnet/undone; "+stopSlurm+"rm -rf /etc/slurm; mv "+ofController+" /etc/slurm; rm -f /usr/sbin/gresnet /usr/sbin/gresnet-prolog /usr/sbin/gresnet-epilog "+plugins+"/spank_gresnet.so")
		vm.RestartSlurm(t)
		vm.WriteConfig(t, vm.Config)
	})
}

// startConfigless has slurmd get Slurm's files from slurmctld.
func startConfigless(t *testing.T) {
	t.Helper()
	vm.Run(t, stopSlurm+"slurmctld -f "+ofController+"/slurm.conf && slurmd --conf-server node1")
	vm.Eventually(t, "the node has its files from the controller", func() bool {
		_, err := os.Stat("/run/slurm/conf/slurm.conf")
		return err == nil
	})
	inService(t)
}

// bringLines brings what setup says of the controller's files into them, as a person would.
func bringLines(t *testing.T, said string) {
	t.Helper()
	for _, line := range strings.Split(said, "\n") {
		file, text, is := strings.Cut(strings.TrimPrefix(line, "  "), ".conf: ")
		if !is || !strings.HasPrefix(line, "  ") || strings.HasPrefix(line, "   ") {
			continue
		}
		file = ofController + "/" + file + ".conf"
		if key, _, _ := strings.Cut(text, "="); file == ofController+"/slurm.conf" {
			vm.Run(t, "sed -i '/^"+key+"=/d' "+file)
		}
		vm.Run(t, "echo "+vm.Quote(text)+" >>"+file)
	}
}

func TestSetupRefusesANodeThatLeavesNoPortsForJobs(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	vm.WriteConfig(t, nicsAlone+"[uplink]\nkind = \"auto\"\n")
	defer vm.WriteConfig(t, vm.Config)
	vm.Run(t, "ip link add way0 type dummy; ip link set way0 up; ip addr add 203.0.113.1/24 dev way0; ip route add default via 203.0.113.254 metric 7")
	defer vm.Run(t, "ip link del way0")
	const setting = "/proc/sys/net/ipv4/ip_local_port_range"
	had := strings.TrimSpace(vm.Run(t, "cat "+setting))
	defer vm.Run(t, "echo "+had+" >"+setting)
	vm.Run(t, "echo 1024 65535 >"+setting)
	if out, code := vm.Command(t, "gresnet setup --dry-run"); code != 1 || !strings.Contains(out, "not done: uplink: the node leaves no ports for jobs") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestASlurmdWithoutFilesOfItsOwnGivesJobsHCAsBySetupsLines(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	before := vm.Picture(t)
	vm.WriteConfig(t, nicsAlone)
	withoutFiles(t)
	startConfigless(t)

	const cache = "SLURM_CONF=/var/spool/slurmd/conf-cache/slurm.conf "
	if by, plain := vm.Run(t, cache+"gresnet setup --dry-run"), vm.Run(t, "gresnet setup --dry-run"); strings.ReplaceAll(by, "/var/spool/slurmd/conf-cache", "/run/slurm/conf") != plain {
		t.Errorf("setup says of slurmd's cache\n%s\nand by its other name\n%s", by, plain)
	}
	kept := vm.Run(t, "cat /run/slurm/conf/*")
	bringLines(t, vm.Run(t, "gresnet setup"))
	if now := vm.Run(t, "cat /run/slurm/conf/*"); now != kept {
		t.Errorf("setup has changed slurmd's cache:\n%s\nbefore it was\n%s", now, kept)
	}
	startConfigless(t)
	for _, by := range []string{"", cache} {
		if out := vm.Run(t, by+"gresnet setup"); !strings.Contains(out, "nothing to change") || strings.Contains(out, "need these lines") {
			t.Errorf("a second setup says\n%s", out)
		}
		if out, err := vm.Try(by + "gresnet check"); err != nil {
			t.Errorf("check: %v\n%s", err, out)
		}
	}
	vm.Run(t, "mkdir -p /etc/slurm; sed '/^Prolog=/d' /run/slurm/conf/slurm.conf >/etc/slurm/slurm.conf")
	if out, err := vm.Try("gresnet check"); err == nil || !strings.Contains(out, "slurm.conf may not be slurmd's") {
		t.Errorf("check of a node that has another slurm.conf than slurmd: %v\n%s", err, out)
	}
	vm.Run(t, "mv /etc/slurm/slurm.conf /etc/slurm/slurm.conf.old")
	if out, err := vm.Try("gresnet check"); err != nil {
		t.Errorf("check of a node where that was moved away, as it says: %v\n%s", err, out)
	}
	vm.Run(t, "rm /etc/slurm/slurm.conf.old")
	out, err := lookAsJob("--gres=nic:1")
	hasRun(t, "ibfake", out, err)
	if out := vm.Script(t, "--gres=nic:2", "srun bash -c 'echo has run with hcas=$GRESNET_HCAS'"); !strings.Contains(out, "has run with hcas=ibfake") {
		t.Errorf("a step of a batch job says\n%s", out)
	}
	vm.Same(t, before)

	// A node without a disk boots without the files that gres.conf names, and before slurmd has that.
	vm.Run(t, stopSlurm+"rm -r /var/lib/gresnet/gres; gresnet boot")
	startConfigless(t)
	out, err = lookAsJob("--gres=nic:1")
	hasRun(t, "ibfake", out, err)
	vm.Same(t, before)
}
