package lease

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
)

const returnNetns = "/run/gresnet/jobs/900060/netns"

// inReturnJob runs a command as root inside the job's network namespace.
func inReturnJob(t *testing.T, command string) string {
	t.Helper()
	return vm.Run(t, "nsenter --net="+returnNetns+" bash -ec "+vm.Quote(command))
}

// interfacesOfJob returns the names of the job's interfaces, the loopback apart.
func interfacesOfJob(t *testing.T) []string {
	t.Helper()
	return strings.Fields(inReturnJob(t, "ls -1 /sys/class/net >/dev/null; ip -j link | jq -r '.[].ifname' | grep -v '^lo$'"))
}

func TestAModeThatWasChangedDuringTheJobDoesNotKeepTheHCAs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	was := vm.Mode(t)
	other := map[string]string{"shared": "exclusive", "exclusive": "shared"}[was]
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.ReturnJob)
	// The kernel changes the mode only when no other namespace is there, so the
	// job's has ended, and the kernel has returned the devices in its own way.
	vm.Run(t, "umount "+returnNetns)
	set := func(mode string) {
		t.Helper()
		vm.Eventually(t, "the RDMA netns mode is "+mode, func() bool {
			_, err := vm.Try("rdma system set netns " + mode)
			return err == nil
		})
	}
	set(other)
	vm.Must(t, "epilog", vm.ReturnJob)
	set(was)
	vm.Same(t, before)
}

func TestWhatTheJobChangedIsReturnedAsItWas(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.ReturnJob)
	namespace, err := os.Open(returnNetns)
	if err != nil {
		t.Fatal(err)
	}
	defer namespace.Close()
	names := interfacesOfJob(t)
	for n, name := range names {
		changes := "mtu 1400 txqueuelen 77 promisc on allmulticast on"
		if !strings.HasPrefix(name, "ib") { // of IPoIB the kernel takes no other address
			changes += " address 02:00:00:00:00:99"
		}
		inReturnJob(t, fmt.Sprintf(`ip link set %s down; ip link set %[1]s name x%d %s; ip link set x%[2]d up
			ip link add %[1]s type dummy; ip addr flush dev x%[2]d; ip addr add 10.99.%[2]d.2/24 dev x%[2]d`, name, n, changes))
		has := inReturnJob(t, fmt.Sprintf("ip -d link show dev x%d", n))
		for _, want := range []string{"mtu 1400", "qlen 77", "PROMISC", "ALLMULTI"} {
			if !strings.Contains(has, want) {
				t.Errorf("x%d has no %s:\n%s", n, want, has)
			}
		}
	}
	if vm.IsExclusive(t) {
		for n, name := range strings.Fields(inReturnJob(t, "rdma -j dev | jq -r '.[].ifname'")) {
			inReturnJob(t, "rdma dev set "+name+" name y"+string(rune('0'+n)))
		}
	}
	vm.Must(t, "epilog", vm.ReturnJob)
	vm.Same(t, before)
	// What the job made under the names that its interfaces had is no HCA's.
	left := vm.Run(t, fmt.Sprintf("nsenter --net=/proc/%d/fd/%d ip -d link", os.Getpid(), namespace.Fd()))
	for _, name := range names {
		if !strings.Contains(left, ": "+name+": ") || strings.Count(left, " dummy ") != len(names) {
			t.Errorf("the job's own %s is not in its namespace:\n%s", name, left)
		}
	}
}

// gresnet looks for it nowhere but on the node and in the job.
func TestWhatWasMovedOutOfTheJobIsQuarantinedUntilItIsBack(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.ReturnJob)
	vm.Run(t, "ip netns add else; touch /tmp/else; mount --bind /run/netns/else /tmp/else")
	for _, name := range interfacesOfJob(t) {
		if !strings.HasPrefix(name, "ib") { // IPoIB goes where its RDMA device goes
			inReturnJob(t, "ip link set "+name+" netns else")
		}
	}
	if vm.IsExclusive(t) {
		for _, name := range strings.Fields(inReturnJob(t, "rdma -j dev | jq -r '.[].ifname'")) {
			inReturnJob(t, "rdma dev set "+name+" netns else")
		}
	}
	vm.Run(t, "ip netns del else") // it is at /tmp/else still
	for range 2 {
		out, code := vm.ByHand(t, "epilog", vm.ReturnJob)
		if code != 2 || !strings.Contains(out, "it is neither on the node nor in its job") || vm.Jq(t, ".claims[].quarantined") == "" {
			t.Errorf("the epilog: exit %d: %s", code, out)
		}
	}
	vm.Run(t, "umount /tmp/else") // its end brings them to the node
	vm.Must(t, "epilog", vm.ReturnJob)
	vm.Same(t, before)
}

func TestALeaseWhoseNamespaceWasUnmountedIsReturnedWhenThatHasEnded(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.ReturnJob)
	release := standin.Start(t, vm.InNamespace(returnNetns))
	vm.Run(t, "umount "+returnNetns)
	if out, code := vm.ByHand(t, "epilog", vm.ReturnJob); code != 2 {
		t.Errorf("while a process is in it, the epilog exits with %d: %s", code, out)
	}
	release()
	vm.Must(t, "epilog", vm.ReturnJob)
	vm.Same(t, before)
}

func TestANamespaceThatIsPinnedDoesNotKeepTheHCAs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	for name, pin := range map[string]string{
		// What it sent is never acknowledged, so the kernel sends it again for minutes.
		"by an orphaned socket": `nsenter --net=` + returnNetns + ` perl -MIO::Socket::INET -e '
			$l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die;
			$c = IO::Socket::INET->new(PeerAddr => "127.0.0.1", PeerPort => $l->sockport) or die;
			system("ip link set lo down"); syswrite $c, "x" x 1000'`,
		"by another's private mount namespace": `unshare -m --propagation private sh -c "touch /tmp/pinned; exec sleep 1000" & echo $! >/tmp/pin; until [ -e /tmp/pinned ]; do kill -0 $! || exit 1; sleep 0.1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			before := vm.Picture(t)
			vm.Must(t, "prolog", vm.ReturnJob)
			vm.Run(t, "rm -f /tmp/pin /tmp/pinned; ("+pin+") >/tmp/pin.out 2>&1 || { cat /tmp/pin.out; false; }")
			vm.Must(t, "epilog", vm.ReturnJob)
			vm.Same(t, before)
			vm.Run(t, "[ ! -e /tmp/pin ] || kill $(cat /tmp/pin)")
		})
	}
}

func TestAnInterfaceWhoseNameIsTakenComesUnderAnotherAndIsRenamedWhenItCan(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	before := vm.Picture(t)
	for _, taken := range []string{"ip link add %s type dummy", "ip link add other type dummy; ip link property add dev other altname %s"} {
		vm.Must(t, "prolog", vm.ReturnJob)
		names := interfacesOfJob(t)
		name := names[len(names)-1]
		address := strings.Fields(inReturnJob(t, "ip -4 -br addr show dev "+name))[2]
		vm.Run(t, strings.ReplaceAll(taken, "%s", name))
		for range 2 {
			out, code := vm.ByHand(t, "epilog", vm.ReturnJob)
			if code != 2 || !strings.Contains(out, "to "+name+": another interface has that name") {
				t.Fatalf("epilog: exit %d: %s", code, out)
			}
			if up := strings.Fields(vm.Run(t, "ip -4 -o addr show up to "+address)); len(up) < 4 || up[1] == name {
				t.Errorf("under another name there is no interface that is up and has %s: %q", address, up)
			}
		}
		vm.Run(t, "ip link del "+name)
		vm.Must(t, "epilog", vm.ReturnJob)
		vm.Same(t, before)
	}
}

// The kernel may make another job's IPoIB interface again under a name of this one's, and it
// has that until its own epilog is at it.
func TestANameThatAnInterfaceMayHaveForAMomentIsWaitedFor(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	vm.Run(t, "ip addr flush dev ib0; ip link set ib0 down") // a new name would give addresses labels
	t.Cleanup(func() { vm.Run(t, "ip addr flush dev ib0; "+vm.GiveAddresses) })
	before := vm.Picture(t)
	vm.Must(t, "prolog", vm.ReturnJob)
	names := interfacesOfJob(t)
	name := names[len(names)-1]
	vm.Run(t, "ip link set ib0 name "+name)
	end := vm.Begin(t, "epilog", vm.ReturnJob)
	ended := make(chan string, 1)
	go func() {
		defer close(ended)
		out, code := end()
		ended <- fmt.Sprintf("exit %d: %s", code, out)
	}()
	select {
	case out := <-ended:
		t.Errorf("the epilog has not waited, %s", out)
	case <-time.After(4 * time.Second): // twice as long as for any other name
	}
	vm.Run(t, "ip link set "+name+" name ib0")
	if out := <-ended; out != "exit 0: " {
		t.Errorf("the epilog, %s", out)
	}
	vm.Same(t, before)
}

// Whoever comes first when a driver is back gives the HCA what it had: the next prolog, of whatever job, the
// next epilog, a cleanup, the boot, or a person.
func TestAnHCAThatTheNodeLostHasItsSettingsAgainWhenItIsBack(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	names := vm.HCAsWithGPUs(t)
	// The interface is another one to the kernel.
	index := regexp.MustCompile(`"ifindex":\d+,`)
	picture := func() string { return vm.Sorted(index.ReplaceAllString(vm.Picture(t), "")) }
	before := picture()
	driver := "echo ibfake." + strings.TrimPrefix(names[1], "ibfake") + " >/sys/bus/platform/drivers/ibfake/"
	const other = "SLURM_JOB_ID=900061 SLURM_JOB_GPUS=0"
	for _, c := range []struct{ name, run string }{
		{"a prolog", ""},
		{"an epilog", "epilog"},
		{"a cleanup", "gresnet cleanup"},
		{"the boot", "gresnet boot"},
		{"a person", "gresnet release " + names[1]},
	} {
		t.Run(c.name, func(t *testing.T) {
			vm.Must(t, "prolog", vm.ReturnJob)
			vm.Run(t, driver+"unbind")
			if out, code := vm.ByHand(t, "epilog", vm.ReturnJob); code != 2 || !strings.Contains(out, "warning: return ") || !strings.Contains(out, "the node does not have") {
				t.Errorf("epilog: exit %d: %s", code, out)
			}
			vm.Must(t, "epilog", vm.ReturnJob) // it was said once
			if out := vm.Run(t, "ls /run/gresnet/jobs"); out != "" {
				t.Errorf("leases are left: %s", out)
			}
			vm.Run(t, vm.Repo()+"/bin/gresnet cleanup")
			vm.Run(t, driver+"bind; udevadm settle")
			if out, code := vm.Command(t, "gresnet status"); code != 0 || !regexp.MustCompile(`(?m)^`+names[1]+` .*is quarantined:\n *the node lost it `).MatchString(out) {
				t.Errorf("status when it is back, exit %d:\n%s", code, out)
			}
			switch c.run {
			case "":
				vm.Must(t, "prolog", other) // which has another HCA
				vm.Must(t, "epilog", other)
			case "epilog":
				vm.Must(t, "epilog", other)
			default:
				if out, code := vm.Command(t, c.run); code != 0 {
					t.Errorf("%s: exit %d: %s", c.run, code, out)
				}
			}
			if now := picture(); now != before {
				t.Errorf("before (-) and after (+):\n%s", netnstest.Diff(before, now))
			}
			if out := vm.Run(t, "ls -A /run/gresnet/claims /run/gresnet/quarantine /run/gresnet/lost | grep -v : | xargs"); out != "\n" {
				t.Errorf("left are %s", out)
			}
		})
	}
}

func TestAnHCAThatTheNodeLostIsReleasedAsItIs(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	names := vm.HCAsWithGPUs(t)
	vm.Must(t, "prolog", vm.ReturnJob)
	driver := "echo ibfake." + strings.TrimPrefix(names[1], "ibfake") + " >/sys/bus/platform/drivers/ibfake/"
	vm.Run(t, driver+"unbind")
	if out, code := vm.ByHand(t, "epilog", vm.ReturnJob); code != 2 {
		t.Errorf("epilog: exit %d: %s", code, out)
	}
	if out, code := vm.Command(t, "gresnet release "+names[1]); code != 0 || !strings.Contains(out, "is released: the node does not have it any more") {
		t.Errorf("release: exit %d: %s", code, out)
	}
	if out, code := vm.Command(t, "gresnet status"); code != 0 || !regexp.MustCompile(`(?m)^`+names[1]+` .* gone `).MatchString(out) {
		t.Errorf("status, exit %d:\n%s", code, out)
	}
	if out := vm.Run(t, "ls -A /run/gresnet/claims /run/gresnet/quarantine /run/gresnet/lost | grep -v : | xargs"); out != "\n" {
		t.Errorf("left are %s", out)
	}
	vm.Run(t, driver+"bind; udevadm settle; "+vm.GiveAddresses)
	if out, code := vm.Command(t, "gresnet status"); code != 0 || strings.Contains(out, " gone ") {
		t.Errorf("status when it is back, exit %d:\n%s", code, out)
	}
}
