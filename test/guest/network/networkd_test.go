package network

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

const managedJob = "SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0,1"

// networkFile is what networkd is told of an interface: %[1]s is its name, %[2]d a
// number, %[3]d an MTU. The stub's IPoIB has no carrier, which duplicate address
// detection would wait for.
const networkFile = `
[Match]
Name=%[1]s

[Link]
MTUBytes=%[3]d

[Network]
ConfigureWithoutCarrier=yes
IPv6AcceptRA=no

[Address]
Address=10.20%[2]d.0.2/24

[Address]
Address=fd20:%[2]d::2/64
DuplicateAddressDetection=none

[Route]
Destination=172.20.%[2]d.0/24
Gateway=10.20%[2]d.0.1
Table=20%[2]d

[Route]
Destination=172.21.%[2]d.0/24
Gateway=10.20%[2]d.0.1

[RoutingPolicyRule]
From=10.20%[2]d.0.2
Table=20%[2]d
Priority=20%[2]d
`

// networkd is a systemd-networkd that manages the interfaces of managedJob.
type networkd struct {
	names []string
	pid   string
}

// withNetworkd starts networkd.
func withNetworkd(t *testing.T) *networkd {
	t.Helper()
	vm.AnHCAOfEachKind(t)
	vm.Must(t, "prolog", managedJob)
	n := &networkd{names: strings.Fields(vm.Run(t, "nsenter --net=/run/gresnet/jobs/900070/netns ip -j link | jq -r '.[].ifname' | grep -v '^lo$' | sort"))}
	vm.Must(t, "epilog", managedJob)
	if len(n.names) != 2 {
		t.Fatalf("the job has interfaces %q, wanted 2", n.names)
	}
	vm.Run(t, "mkdir -p /run/systemd/network")
	for i := range n.names {
		n.write(t, i, networkFile)
	}
	t.Cleanup(func() {
		n.stop(t)
		vm.Run(t, "rm -rf /run/systemd/network /run/systemd/netif; for f in 4 6; do ip -$f rule | sed -n 's/^20[12]:.*/&/p' | while read -r r; do ip -$f rule del pref ${r%%:*}; done; done")
		for _, name := range n.names {
			vm.Run(t, "ip addr flush dev "+name+" scope global; ip route flush dev "+name+" proto boot; ip neigh flush dev "+name+" nud permanent")
		}
		vm.Run(t, vm.GiveAddresses)
	})
	n.start(t)
	return n
}

// addByHand gives its interfaces what networkd knows nothing of.
func (n *networkd) addByHand(t *testing.T) {
	t.Helper()
	for i, name := range n.names {
		vm.Run(t, fmt.Sprintf(`ip route add 198.51.10%d.0/24 dev %s
ip neigh add 10.20%[1]d.0.77 lladdr $(cat /sys/class/net/%[2]s/address) dev %[2]s nud permanent
ip rule add from 10.20%[1]d.0.2 table 30%[1]d pref 20%[1]d`, i+1, name))
	}
}

// write tells networkd of one of its interfaces; it reads that when it starts.
func (n *networkd) write(t *testing.T, i int, text string) {
	t.Helper()
	text = fmt.Sprintf(text, n.names[i], i+1, n.mtu(i))
	if err := os.WriteFile("/run/systemd/network/10-"+n.names[i]+".network", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (n *networkd) mtu(i int) int {
	if strings.HasPrefix(n.names[i], "ib") {
		return 2000
	}
	return 4200
}

func (n *networkd) start(t *testing.T) {
	t.Helper()
	// What an earlier one has left tells nothing of this one.
	n.pid = strings.TrimSpace(vm.Run(t, "rm -f /run/systemd/netif/state; setsid /lib/systemd/systemd-networkd </dev/null >>/tmp/networkd.log 2>&1 & echo $!"))
	vm.Eventually(t, "networkd runs", func() bool {
		_, err := vm.Try("test -e /run/systemd/netif/state")
		return err == nil
	})
	for _, name := range n.names {
		if _, err := os.Stat("/sys/class/net/" + name); err == nil {
			n.configured(t, name)
		}
	}
}

func (n *networkd) stop(t *testing.T) {
	t.Helper()
	vm.Run(t, "kill "+n.pid+" 2>/dev/null || true; kill -CONT "+n.pid+" 2>/dev/null || true")
	vm.Eventually(t, "networkd has ended", func() bool {
		_, err := os.Readlink("/proc/" + n.pid + "/exe")
		return err != nil
	})
}

// configured waits until networkd has configured an interface, and the kernel has
// made the routes of its addresses: of an address it tells networkd first
// (addrconf.c:__ipv6_ifa_notify).
func (n *networkd) configured(t *testing.T, name string) {
	t.Helper()
	vm.Eventually(t, "networkd has configured "+name, func() bool {
		out, _ := vm.Try("cat /run/systemd/netif/links/$(cat /sys/class/net/" + name + "/ifindex)")
		return strings.Contains(out, "ADMIN_STATE=configured\n")
	})
	vm.Eventually(t, "the addresses of "+name+" have their routes", func() bool {
		out, err := vm.Try("cat /sys/class/net/" + name + "/carrier; ip -6 -o addr show dev " + name + " | wc -l; ip -6 -o route show table local type local dev " + name + " | wc -l")
		counts := strings.Fields(out)
		return err == nil && (counts[0] == "0" || counts[1] == counts[2])
	})
}

// isBack fails the test unless the node is as it was and networkd content.
func (n *networkd) isBack(t *testing.T, before string) {
	t.Helper()
	for _, name := range n.names {
		n.configured(t, name)
	}
	if vm.Same(t, before); t.Failed() {
		log, _ := vm.Try("tail -n 40 /tmp/networkd.log; cat /run/systemd/netif/links/*")
		t.Log(log)
	}
}

func TestWhatNetworkdManagesIsTheJobsAndIsReturnedAsItWas(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	n := withNetworkd(t)
	n.addByHand(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", managedJob)
	for i, name := range n.names {
		has := vm.Run(t, "nsenter --net=/run/gresnet/jobs/900070/netns sh -c 'ip addr show dev "+name+"; ip route show table all dev "+name+"; ip rule'")
		for _, want := range []string{fmt.Sprintf("mtu %d", n.mtu(i)), "inet 10.20N.0.2/24", "inet6 fd20:N::2/64", "172.20.N.0/24 via 10.20N.0.1 table 20N", "172.21.N.0/24 via", "198.51.10N.0/24", "from 10.20N.0.2 lookup 20N", "from 10.20N.0.2 lookup 30N"} {
			if want = strings.ReplaceAll(want, "N", fmt.Sprint(i+1)); !strings.Contains(has, want) {
				t.Errorf("%s of the job lacks %q:\n%s", name, want, has)
			}
		}
	}
	vm.Must(t, "epilog", managedJob)
	n.isBack(t, before)
}

func TestWhatNetworkdManagedIsReturnedWithoutItWhenItWasStopped(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	n := withNetworkd(t)
	n.addByHand(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", managedJob)
	n.stop(t)
	begun := time.Now()
	vm.Must(t, "epilog", managedJob)
	if took := time.Since(begun); took > vm.Slow(8*time.Second) {
		t.Errorf("the epilog took %s for a manager that is not there", took)
	}
	vm.Same(t, before)
	n.start(t)
}

func TestAnEpilogThatIsKilledWhileItWaitsForNetworkdIsFinishedByTheNext(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	n := withNetworkd(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", managedJob)
	vm.Run(t, "kill -STOP "+n.pid)
	epilog := exec.Command("env", strings.Fields("-i PATH="+os.Getenv("PATH")+" "+managedJob+" "+vm.Repo()+"/bin/gresnet-epilog --trace")...)
	epilog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	trace, err := os.Create("/tmp/epilog.trace")
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	epilog.Stderr = trace
	if err := epilog.Start(); err != nil {
		t.Fatal(err)
	}
	vm.Eventually(t, "the epilog waits", func() bool {
		out, _ := vm.Try("cat /tmp/epilog.trace")
		return strings.Count(out, "undo access") == 2
	})
	if err := epilog.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	epilog.Wait()
	if epilog.ProcessState.Exited() {
		t.Fatalf("the epilog ended by itself: %s", epilog.ProcessState)
	}
	vm.Run(t, "kill -CONT "+n.pid)
	vm.Must(t, "epilog", managedJob)
	n.isBack(t, before)
}

func TestWhatNetworkdDoesNotConfigureInTimeIsReturnedWithoutIt(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	n := withNetworkd(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", managedJob)
	vm.Run(t, "kill -STOP "+n.pid)
	begun := time.Now()
	vm.Must(t, "epilog", managedJob)
	if took := time.Since(begun); took < 10*time.Second || took > vm.Slow(18*time.Second) {
		t.Errorf("for two interfaces the epilog took %s, wanted to wait once for 10 s", took)
	}
	vm.Same(t, before)
	vm.Run(t, "kill -CONT "+n.pid)
	n.isBack(t, before)
}

func TestAPrologThatFailsReturnsToNetworkdWhatWasAwayForMoments(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	n := withNetworkd(t)
	before := vm.Picture(t)
	out, code := vm.Traced(t, "prolog --trace", managedJob, "-e inject=mknodat:error=EIO:when=1")
	if code != 1 || strings.Contains(out, "did not configure") {
		t.Errorf("prolog: exit %d: %s", code, out)
	}
	n.isBack(t, before)
}

func TestWhatNetworkdConfiguresOtherwiseNowIsItsDecision(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long)
	n := withNetworkd(t)
	vm.Must(t, "prolog", managedJob)
	n.stop(t)
	n.write(t, 1, strings.ReplaceAll(networkFile, "10.20%[2]d.0.2", "10.20%[2]d.0.3"))
	n.start(t)
	out, code := vm.ByHand(t, "epilog --trace", managedJob)
	want := n.names[1] + " is as systemd-networkd configures it now: address 10.202.0.2/24 is missing, address 10.202.0.3/24 was not there"
	if code != 0 || !strings.Contains(out, want) {
		t.Errorf("epilog: exit %d, wanted %q:\n%s", code, want, out)
	}
	if has := vm.Run(t, "ip addr show dev "+n.names[1]); strings.Contains(has, "10.202.0.2/24") || !strings.Contains(has, "10.202.0.3/24") {
		t.Errorf("%s has:\n%s", n.names[1], has)
	}
}
