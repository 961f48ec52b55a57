package mlx5

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

// fate is what becomes of an HCA in the middle of a job.
type fate struct {
	name   string
	exit   int  // of the epilog
	again  bool // it says that the interface was made again
	kept   bool // on Linux 5.10 the driver keeps the interface
	action func(*testing.T, hca)
	// back makes the HCA whole, if it is not by itself.
	back func(*testing.T, hca)
}

func sh(command string) func(*testing.T, hca) {
	return func(t *testing.T, h hca) {
		t.Helper()
		vm.Run(t, strings.NewReplacer("PCI", h.pci, "NET", h.net, "RDMA", h.name).Replace(command))
	}
}

// away waits until the node has the HCA no more, and again until it has.
func away(t *testing.T, h hca) {
	t.Helper()
	vm.Eventually(t, h.name+" is away", func() bool {
		_, err := vm.Try("! grep -qsx " + h.name + " /sys/class/infiniband_verbs/*/ibdev")
		return err == nil
	})
}

func again(t *testing.T, h hca) {
	t.Helper()
	vm.Eventually(t, h.name+" is there again", func() bool {
		_, err := vm.Try("udevadm settle; grep -qsx " + h.name + " /sys/class/infiniband_verbs/*/ibdev")
		return err == nil
	})
}

// fails has the firmware of the first HCA fail, as often as the test wants: the driver recovers by itself.
func fails(t *testing.T, h hca) {
	t.Helper()
	vm.Run(t, "devlink health set pci/"+h.pci+" reporter fw_fatal grace_period 0")
	count := func() int {
		return vm.Atoi(vm.Run(t, "dmesg | grep -cE 'health recovery succe|device recovered' || true"))
	}
	before := count()
	order(t, "fail 0")
	vm.Eventually(t, "the driver has recovered", func() bool { return count() > before })
	again(t, h)
}

var fates = []fate{
	{name: "its firmware fails, and the driver recovers", again: true, kept: true, action: fails},
	{name: "its driver begins again", again: true, kept: true, action: func(t *testing.T, h hca) {
		sh("timeout 120 devlink dev reload pci/PCI")(t, h)
		again(t, h)
	}},
	{name: "its driver is unbound and bound", again: true, action: func(t *testing.T, h hca) {
		sh("echo PCI >/sys/bus/pci/drivers/mlx5_core/unbind")(t, h)
		away(t, h)
		sh("echo PCI >/sys/bus/pci/drivers/mlx5_core/bind")(t, h)
		again(t, h)
	}},
	{name: "it is removed from the bus and found again", again: true, action: func(t *testing.T, h hca) {
		sh("echo 1 >/sys/bus/pci/devices/PCI/remove")(t, h)
		away(t, h)
		sh("echo 1 >/sys/bus/pci/rescan")(t, h)
		again(t, h)
	}},
	{name: "its RDMA driver is unloaded and loaded", action: func(t *testing.T, h hca) {
		sh("rmmod mlx5_ib")(t, h) // modprobe -r would unload mlx5_core, too
		away(t, h)
		sh("modprobe mlx5_ib")(t, h)
		again(t, h)
	}, back: func(t *testing.T, _ hca) { vm.Run(t, addressesOfIPoIB) }},
	{name: "its cable is pulled and put back",
		action: func(t *testing.T, _ hca) { order(t, "out 0"); order(t, "in 0") }},
	{name: "its cable is pulled, and put back after the job",
		action: func(t *testing.T, _ hca) { order(t, "out 0") },
		back:   func(t *testing.T, _ hca) { order(t, "in 0") }},
	{name: "its driver is unbound, and bound after the job", exit: 2, // a person must look for it until then
		action: func(t *testing.T, h hca) { sh("echo PCI >/sys/bus/pci/drivers/mlx5_core/unbind")(t, h); away(t, h) },
		back:   func(t *testing.T, h hca) { sh("echo PCI >/sys/bus/pci/drivers/mlx5_core/bind")(t, h); again(t, h) }},
}

// addressesOfIPoIB gives IPoIB's interfaces theirs: they are made again with all RDMA devices.
var addressesOfIPoIB = strings.Replace(vm.GiveAddresses, "do\n", "do\n\t[[ $i == ib* ]] || { n=$((n + 1)); continue; }\n", 1)

// TestAnHCAThatIsLostAndComesAgainWhileAJobHasItIsReturned takes the first of the fates, and for the long tests all.
func TestAnHCAThatIsLostAndComesAgainWhileAJobHasItIsReturned(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Smoke, vm.MLX5)
	h := begin(t)[0]
	restricts(t)
	before := remade(vm.Picture(t))
	isOld := strings.HasPrefix(vm.Run(t, "uname -r"), "5.")
	for _, f := range fates[:vm.Rounds(1, len(fates))] {
		vm.Must(t, "prolog", first)
		f.action(t, h)
		out, code := vm.ByHand(t, "epilog", first)
		if code != f.exit || strings.Contains(out, "is another one than the job had") != (f.again && !(f.kept && isOld)) {
			t.Errorf("%s: epilog: exit %d: %s", f.name, code, out)
		}
		if f.back != nil {
			f.back(t, h)
		}
		settles(t, f.name, before)
	}
}

// TestAStepSaysWhichInterfaceItsJobHasLost has the driver unbound and bound between two steps.
func TestAStepSaysWhichInterfaceItsJobHasLost(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.MLX5)
	h := begin(t)[0]
	restricts(t)
	before := remade(vm.Picture(t))
	job := vm.Submit(t, "alice", "--gres=gpu:1", "srun echo first; touch /tmp/begun.$SLURM_JOB_ID; until [ -e /tmp/lost.$SLURM_JOB_ID ]; do sleep 0.2; done; srun echo second")
	vm.Eventually(t, "the first step has ended", func() bool { _, err := vm.Try("test -e /tmp/begun." + job); return err == nil })
	sh("echo PCI >/sys/bus/pci/drivers/mlx5_core/unbind")(t, h)
	away(t, h)
	sh("echo PCI >/sys/bus/pci/drivers/mlx5_core/bind")(t, h)
	again(t, h)
	vm.Run(t, "touch /tmp/lost."+job)
	vm.Ended(t, job)
	// Slurm 22.05 cannot load its own program for devices on Linux 5.10, and says so.
	out := vm.Run(t, "grep -v load_ebpf_prog: /tmp/"+job+".out")
	if want := fmt.Sprintf("\nfirst\ngresnet: job %s no longer has %s: ", job, h.net); !strings.Contains(out, want) || !strings.HasSuffix(out, "\nsecond\n") {
		t.Errorf("the job says:\n%s", out)
	}
	settles(t, "a job that lost its HCA", before)
}

// settles holds the node to be as it was, perhaps after a few of the runs that its timer starts.
func settles(t *testing.T, what, before string) {
	t.Helper()
	for range 5 {
		if remade(vm.Picture(t)) == before {
			return
		}
		out, code := vm.Command(t, "gresnet cleanup")
		t.Logf("%s: cleanup: exit %d: %s", what, code, out)
		vm.Run(t, "udevadm settle")
	}
	if diff := netnstest.Diff(before, remade(vm.Picture(t))); diff != "" {
		t.Fatalf("the node is not as it was, after: %s\n%s\n%s", what, diff, vm.Run(t, vm.Repo()+"/bin/gresnet status; dmesg | tail -n 30"))
	}
}

// remade returns a picture without what a driver chooses when it makes an HCA again: the interface's index, and the
// order of RDMA devices.
func remade(picture string) string {
	return vm.Sorted(regexp.MustCompile(`"(ifindex|index)":\d+`).ReplaceAllString(picture, ""))
}

// restricts has udev know the rule of the package, which restricts device nodes that are made again.
func restricts(t *testing.T) {
	t.Helper()
	vm.Run(t, "mkdir -p /run/udev/rules.d; cp "+vm.Repo()+"/packaging/systemd/udev.rules /run/udev/rules.d/90-gresnet.rules; ln -sf "+vm.Repo()+"/bin/gresnet /usr/sbin; udevadm control --reload; "+vm.Repo()+"/bin/gresnet close")
	t.Cleanup(func() {
		vm.Run(t, "rm -f /run/udev/rules.d/90-gresnet.rules /usr/sbin/gresnet; udevadm control --reload")
	})
}

func TestTheDeviceNodesOfAnHCAAreRestrictedOnceUdevGivesItTheNameThatTheSiteLists(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Smoke, vm.MLX5)
	h := begin(t)[0]
	vm.WriteConfig(t, "[slurm]\nsource = [\"gpu\"]\n[[hca]]\nindex = 0\nmatch = \"rdma=late0\"\ngpus = [0]\n")
	restricts(t)
	node := "/dev/infiniband/" + vm.UverbsOf(t, h.name)
	mode := func() string { return strings.TrimSpace(vm.Run(t, "udevadm settle; stat -c %a "+node)) }
	vm.Run(t, "chmod 666 "+node+"; rdma dev set "+h.name+" name late0")
	t.Cleanup(func() { vm.Run(t, "rdma dev set late0 name "+h.name+"; "+vm.Repo()+"/bin/gresnet close") })
	if now := mode(); now != "600" {
		t.Errorf("it is %s", now)
	}
}

// TestTheDeviceNodesOfAnHCAThatIsMadeAgainAreRestricted has the firmware fail again and again, while no job has the HCA.
func TestTheDeviceNodesOfAnHCAThatIsMadeAgainAreRestricted(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.MLX5)
	h := begin(t)[0]
	restricts(t)
	before := remade(vm.Picture(t))
	for n := range 6 {
		fails(t, h)
		if now := vm.Run(t, fmt.Sprintf("stat -c %%a /dev/infiniband/%s", vm.UverbsOf(t, h.name))); now != "600\n" {
			t.Errorf("after fault %d the node is %s", n, now)
		}
	}
	vm.Run(t, vm.GiveAddresses+"udevadm settle")
	if diff := netnstest.Diff(before, remade(vm.Picture(t))); diff != "" {
		t.Error(diff)
	}
}
