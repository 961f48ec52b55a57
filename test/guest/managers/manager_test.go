package managers

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gresnet/test/guest/vm"
	"gresnet/test/netnstest"
)

const (
	job   = "SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0,1 SLURM_NODELIST=node1 "
	netns = "/run/gresnet/jobs/900070/netns"
)

// uplinked is what the job has beside its HCAs.
const uplinked = "\n[uplink]\nkind = \"auto\"\n"

var dressed sync.Once

// site gives jobs an InfiniBand and a RoCE HCA, whose interfaces nobody has configured, and returns the
// interfaces.
func site(t *testing.T) []string {
	t.Helper()
	dressed.Do(func() {
		vm.Run(t, "echo '192.0.2.2 node2' >>/etc/hosts; "+vm.Repo()+"/test/vm/slurm-up --written")
		listen(t, "", slurmd)
	})
	names := vm.HCAs(t)
	first, last := names[0], names[len(names)-1]
	vm.WriteConfig(t, strings.NewReplacer("HCA0", first, "HCA1", last).Replace(vm.GPUConfig)+uplinked)
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	return strings.Fields(vm.Run(t, `for hca in `+first+` `+last+`; do
	for i in /sys/class/net/*; do [ "$(readlink -f $i/device)" != "$(readlink -f /sys/class/infiniband/$hca/device)" ] || basename $i; done
done`))
}

// manager is a program that configures interfaces by its own files. In commands, $1 is an interface and $2
// its number, from 1 on.
type manager struct {
	name   string
	file   func(i int, name string) (path, text string)
	others map[string]string // more files
	start  string
	hand   string // what somebody else does to an interface
	done   string // a condition: the manager has nothing left to do to an interface
	again  string // what an administrator does while a job runs
	stop   string
	check  string // what check says of it
	// late: what it does when an interface goes may come after a short job, when the interface is back again
	late bool
}

var managers = []manager{
	{
		name:  "systemd-networkd",
		file:  networkFile,
		start: "systemctl start systemd-networkd",
		done:  "grep -qx ADMIN_STATE=configured /run/systemd/netif/links/$(cat /sys/class/net/$1/ifindex)",
		again: "networkctl reload; systemctl restart systemd-networkd",
		stop:  "systemctl stop systemd-networkd.socket systemd-networkd",
		check: "warning  systemd-networkd: it manages ",
	},
	{
		name:   "NetworkManager beside ip",
		others: server,
		start:  "systemctl start NetworkManager",
		hand: `ip link set $1 up; ip addr add 10.20$2.0.2/24 dev $1; ip -6 addr add fd20:$2::2/64 dev $1 nodad
ip route add 172.21.$2.0/24 via 10.20$2.0.1 dev $1 proto static`,
		done:  "nmcli -t -f GENERAL.STATE device show $1 | grep -q ':100 .*externally'",
		again: "nmcli connection reload; systemctl restart NetworkManager",
		stop:  "systemctl stop NetworkManager; rm -rf /run/NetworkManager", // check believes what it left
		check: "ok       NetworkManager: it leaves the HCAs' interfaces alone",
	},
	{
		name:   "NetworkManager's own connections",
		file:   connectionFile,
		others: server,
		start:  duplicates(0) + "chmod 600 /etc/NetworkManager/system-connections/*; systemctl start NetworkManager",
		done: `[ "$(nmcli -t -f GENERAL.STATE,GENERAL.CONNECTION device show $1)" = "GENERAL.STATE:100 (connected)
GENERAL.CONNECTION:site-$1" ]`,
		again: "nmcli connection reload; systemctl restart NetworkManager",
		stop:  duplicates(1) + "systemctl stop NetworkManager; rm -rf /run/NetworkManager",
		check: "warning  NetworkManager: it manages ",
	},
	{
		name: "ifupdown by allow-hotplug",
		file: func(i int, name string) (string, string) { return interfacesFile("allow-hotplug", i, name) },
		// What udev does when the interface appears.
		start: "udevadm trigger --action=add --settle --subsystem-match=net",
		// It fails where the addresses are there already.
		done:  "case $(systemctl is-active ifup@$1) in *ing) false ;; esac",
		again: "systemctl restart networking",
		late:  true,
		stop:  "systemctl stop 'ifup@*' networking; systemctl reset-failed; rm -f /run/network/ifstate*",
		check: "warning  ifupdown: ifup@",
	},
	{
		name:  "ifupdown by auto",
		file:  func(i int, name string) (string, string) { return interfacesFile("auto", i, name) },
		start: "systemctl restart networking",
		done:  "ifquery --state $1",
		again: "networkctl --version >/dev/null",
		stop:  "systemctl stop networking; systemctl reset-failed; rm -f /run/network/ifstate*",
	},
}

// server is what NetworkManager has on servers; and the stub's IPoIB has no carrier.
var server = map[string]string{"/etc/NetworkManager/conf.d/90-server.conf": "[main]\nno-auto-default=*\nignore-carrier=*\n"}

func networkFile(i int, name string) (path, text string) {
	return "/etc/systemd/network/10-" + name + ".network", fmt.Sprintf(`[Match]
Name=%s
[Network]
ConfigureWithoutCarrier=yes
IPv6AcceptRA=no
Address=10.20%d.0.2/24
[Address]
Address=fd20:%[2]d::2/64
DuplicateAddressDetection=none
[Route]
Destination=172.21.%[2]d.0/24
Gateway=10.20%[2]d.0.1
`, name, i)
}

// duplicates has the kernel look for others with an address of IPv6, or not. NetworkManager cannot say so of one,
// and where there is no carrier the look never ends.
func duplicates(look int) string {
	return fmt.Sprintf("for f in /proc/sys/net/ipv6/conf/[dir]*/accept_dad; do echo %d >$f; done\n", look)
}

func connectionFile(i int, name string) (path, text string) {
	kind, more := "ethernet", ""
	if strings.HasPrefix(name, "ib") {
		kind, more = "infiniband", "\ntransport-mode=datagram"
	}
	return "/etc/NetworkManager/system-connections/" + name + ".nmconnection", fmt.Sprintf(`[connection]
id=site-%[1]s
uuid=00000000-0000-4000-8000-00000000000%[2]d
type=%[3]s
interface-name=%[1]s
[%[3]s]%[4]s
[ipv4]
method=manual
address1=10.20%[2]d.0.2/24
route1=172.21.%[2]d.0/24,10.20%[2]d.0.1
[ipv6]
method=manual
addr-gen-mode=eui64
address1=fd20:%[2]d::2/64
`, name, i, kind, more)
}

func interfacesFile(how string, i int, name string) (path, text string) {
	return "/etc/network/interfaces.d/" + name, fmt.Sprintf(`%[3]s %[1]s
iface %[1]s inet static
	address 10.20%[2]d.0.2/24
	up ip route add 172.21.%[2]d.0/24 via 10.20%[2]d.0.1 dev %[1]s proto static
	up ip -6 addr add fd20:%[2]d::2/64 dev %[1]s nodad
`, name, i, how)
}

// run runs a command for an interface.
func (m manager) run(t *testing.T, command string, i int, name string) {
	t.Helper()
	vm.Run(t, fmt.Sprintf("set -- %s %d\n%s", name, i+1, command))
}

// isDone tells whether the manager has nothing left to do to an interface.
func (m manager) isDone(name string) bool {
	_, err := vm.Try("set -- " + name + "; " + m.done)
	return err == nil
}

// configures waits until the manager has configured interfaces.
func (m manager) configures(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		vm.Eventually(t, m.name+" has configured "+name, func() bool { return m.isDone(name) && addressed(name) })
	}
	settled(t)
}

// manages has the manager configure interfaces.
func (m manager) manages(t *testing.T, names []string) {
	t.Helper()
	files := map[string]string{}
	for path, text := range m.others {
		files[path] = text
	}
	for i, name := range names {
		if m.file != nil {
			path, text := m.file(i+1, name)
			files[path] = text
		}
	}
	for path, text := range files {
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := vm.Try("ip addr; nmcli device; networkctl --no-pager; systemctl --failed --no-legend; journalctl --no-pager -q -n 60")
			t.Log(said)
		}
		for path := range files {
			vm.Run(t, "rm "+path)
		}
		vm.Run(t, m.stop)
		for _, name := range names {
			vm.Run(t, "ip addr flush dev "+name+"; ip link set "+name+" down")
		}
	})
	vm.Run(t, m.start)
	for i, name := range names {
		m.run(t, m.hand, i, name)
	}
	m.configures(t, names)
}

// addressed tells whether an interface of the node has both addresses, and neither is tentative.
func addressed(name string) bool {
	has, _ := vm.Try("ip addr show dev " + name + " scope global")
	return strings.Contains(has, "inet 10.20") && strings.Contains(has, "inet6 fd20:") && !strings.Contains(has, "tentative")
}

// settled waits until nothing that follows from an interface's coming or going is left to be done. systemd
// waits for this test itself.
func settled(t *testing.T) {
	t.Helper()
	vm.Run(t, "udevadm settle --timeout=120")
	vm.Eventually(t, "systemd has no job left", func() bool {
		out, err := vm.Try("systemctl list-jobs --no-legend | grep -vE 'vm-finish|[.]target|utmp' || true")
		return err == nil && strings.TrimSpace(out) == ""
	})
}

// returns waits until everybody is done with the interfaces, and fails the test unless the node is as it was.
func (m manager) returns(t *testing.T, names []string, before string) {
	t.Helper()
	settled(t)
	for _, name := range names {
		vm.Eventually(t, m.name+" is done with "+name, func() bool { return m.isDone(name) })
	}
	var diff string
	vm.Eventually(t, "the node stays as it is", func() bool {
		last := diff
		diff = netnstest.Diff(before, vm.Picture(t))
		return diff == "" || diff == last
	})
	if diff != "" {
		log, _ := vm.Try("journalctl --no-pager -q -o short-monotonic -n 60; systemctl --failed --no-legend")
		t.Errorf("%s: the node is not as it was, before (-) and after (+):\n%s\n%s", m.name, diff, log)
	}
}

// slurmd is the port at which something answers in its place.
const slurmd = 6818

// listen has something answer at a port, on the node or in a namespace.
func listen(t *testing.T, in string, port int) {
	t.Helper()
	vm.Run(t, fmt.Sprintf(`%s setsid python3 -c '
import socket
s = socket.create_server(("0.0.0.0", %d))
while True:
	s.accept()[0].close()' </dev/null >/dev/null 2>&1 &
while [ -z "$(%[1]s ss -Hltn sport = :%[2]d)" ]; do sleep 0.1; done`, in, port))
}

// reaches tells whether the job's programs reach a port.
func reaches(address string, port int) bool {
	_, err := vm.Try(fmt.Sprintf("nsenter --net=%s timeout %.0f bash -c 'exec 3<>/dev/tcp/%s/%d'", netns, vm.Slow(3*time.Second).Seconds(), address, port))
	return err == nil
}

// inside fails the test unless the job has its interfaces with all that the manager gave them.
func inside(t *testing.T, m manager, names []string, when string) {
	t.Helper()
	for i, name := range names {
		has, _ := vm.Try("nsenter --net=" + netns + " sh -c 'ip addr show dev " + name + "; ip route show dev " + name + "'")
		for _, want := range []string{",UP", "inet 10.20N.0.2/24", "inet6 fd20:N::2/64", "172.21.N.0/24 via 10.20N.0.1"} {
			if want = strings.ReplaceAll(want, "N", fmt.Sprint(i+1)); !strings.Contains(has, want) {
				t.Errorf("%s: %s, %s of the job lacks %q:\n%s", m.name, when, name, want, has)
			}
		}
	}
}

// wayOut fails the test unless the job reaches slurmd of its node.
func wayOut(t *testing.T, when string) {
	t.Helper()
	if !reaches("192.0.2.1", slurmd) {
		state, _ := vm.Try("ip addr show; ip route; nft list tables; networkctl --no-pager; nmcli device")
		t.Errorf("%s, the job does not reach its node:\n%s", when, state)
	}
}

func TestWhatAManagerConfiguredIsTheJobsAndIsReturnedAsItWas(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.Managed)
	for _, m := range managers {
		t.Run(m.name, func(t *testing.T) {
			names := site(t)
			m.manages(t, names)
			m.isNamed(t)
			before := vm.Picture(t)
			m.takes(t)
			settled(t)
			inside(t, m, names, "at the begin")
			wayOut(t, m.name+": at the begin")
			vm.Run(t, m.again)
			settled(t)
			inside(t, m, names, m.again)
			wayOut(t, m.name+": "+m.again)
			m.gives(t)
			m.returns(t, names, before)
			// The manager may still be at what it does when an interface goes.
			for range 2 {
				if m.late {
					break // check warns of it
				}
				m.takes(t)
				m.gives(t)
				m.returns(t, names, before)
			}
		})
	}
}

// isNamed fails the test unless check says of the manager what it should, and nothing of others.
func (m manager) isNamed(t *testing.T) {
	t.Helper()
	said, _ := vm.Command(t, "gresnet check")
	if !strings.Contains(said, m.check) {
		t.Errorf("%s: check lacks %q:\n%s", m.name, m.check, said)
	}
	for _, about := range []string{"systemd-networkd", "NetworkManager", "ifupdown", "systemd"} {
		if warning := "warning  " + about + ": "; strings.Contains(said, warning) && !strings.HasPrefix(m.check, warning) {
			t.Errorf("%s: check has a %q:\n%s", m.name, warning, said)
		}
	}
}

// takes and gives run the prolog and the epilog, which have nothing to say but that an emulated processor is slow.
func (m manager) takes(t *testing.T) { m.timed(t, "prolog") }
func (m manager) gives(t *testing.T) { m.timed(t, "epilog") }

func (m manager) timed(t *testing.T, program string) {
	t.Helper()
	begun := time.Now()
	out, code := vm.ByHand(t, program, job)
	t.Logf("%s: the %s took %s: %s", m.name, program, time.Since(begun).Round(time.Millisecond), out)
	for line := range strings.Lines(out) {
		if !strings.Contains(line, "did not configure") {
			t.Errorf("%s: the %s says %s", m.name, program, line)
		}
	}
	if code != 0 {
		t.Fatalf("%s: the %s ended with %d", m.name, program, code)
	}
}

// everything is what networkd does with interfaces that no other file is about.
var everything = map[string]string{
	"/etc/systemd/network/05-eth0.network": "[Match]\nName=eth0\n[Network]\nAddress=192.0.2.1/24\nGateway=192.0.2.254\n",
	"/etc/systemd/network/90-all.network":  "[Match]\nName=*\n[Network]\nDHCP=ipv4\n",
}

func TestAManagerThatTakesEachNewInterfaceLeavesTheJobsEndsAlone(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.Managed)
	names := site(t)
	m := managers[0]
	m.others = everything
	m.manages(t, names)
	t.Cleanup(func() {
		vm.Run(t, "ip addr replace 192.0.2.1/24 dev eth0; ip route replace default via 192.0.2.254 dev eth0")
	})
	vm.Run(t, "install -D -m 644 -t /run/systemd/network "+vm.Repo()+"/packaging/systemd/00-gresnet.network")
	t.Cleanup(func() { vm.Run(t, "rm -r /run/systemd/network") })
	vm.Run(t, "networkctl reload")
	settled(t)
	before := vm.Picture(t)
	vm.Must(t, "prolog", job)
	settled(t)
	inside(t, m, names, "at the begin")
	wayOut(t, "at the begin")
	if state := vm.Run(t, "networkctl --no-pager --no-legend | grep ' job'"); !strings.Contains(state, "unmanaged") {
		t.Errorf("networkd has the job's end: %s", state)
	}
	vm.Must(t, "epilog", job)
	m.returns(t, names, before)
}

func TestCheckNamesAServiceThatEndsWhenAnInterfaceGoesToAJob(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Long, vm.Managed)
	names := site(t)
	roce := names[1]
	const unit = "/run/systemd/system/site-bound.service"
	device := "sys-subsystem-net-devices-" + roce + ".device"
	if err := os.WriteFile(unit, []byte("[Unit]\nBindsTo="+device+"\nAfter="+device+"\n[Service]\nExecStart=/bin/sleep infinity\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	vm.Run(t, "ip link set "+roce+" up; systemctl daemon-reload; systemctl start site-bound")
	t.Cleanup(func() {
		vm.Run(t, "systemctl stop site-bound; rm "+unit+"; systemctl daemon-reload; ip link set "+roce+" down")
	})
	want := "warning  systemd: it stops site-bound.service when " + roce + " goes to a job; "
	if said, _ := vm.Command(t, "gresnet check"); !strings.Contains(said, want) {
		t.Errorf("check lacks %q:\n%s", want, said)
	}
	vm.Must(t, "prolog", job)
	vm.Eventually(t, "systemd has stopped the service", func() bool {
		out, _ := vm.Try("systemctl is-active site-bound")
		return strings.TrimSpace(out) == "inactive"
	})
	vm.Must(t, "epilog", job)
	settled(t)
	if out, _ := vm.Try("systemctl is-active site-bound"); strings.TrimSpace(out) != "inactive" {
		t.Errorf("the service is %s", out)
	}
}
