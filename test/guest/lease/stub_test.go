package lease

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// stubs leaves the test an InfiniBand and a RoCE HCA, and the latter's interface, which is up.
func stubs(t *testing.T) (ib, roce, link string) {
	t.Helper()
	vm.Slurm(t)
	all := vm.HCAs(t)
	ib, roce = all[0], all[len(all)-1]
	link = linkOf(t, roce)
	// An interface that was down has lost addresses and routes.
	t.Cleanup(func() { vm.Run(t, vm.GiveAddresses) })
	return ib, roce, link
}

func TestAStubsInterfaceHasAQueueingDisciplineForEachOfItsQueues(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	_, _, link := stubs(t)
	t.Cleanup(func() { vm.Run(t, "ethtool -L "+link+" combined 4") })
	for _, queues := range []int{3, 8, 4} {
		vm.Run(t, "ethtool -L "+link+" combined "+strconv.Itoa(queues))
		out := vm.Run(t, "tc qdisc show dev "+link)
		if !strings.Contains(out, "qdisc mq 0: root") || strings.Count(out, " parent :") != queues {
			t.Errorf("of %d queues tc shows\n%s", queues, out)
		}
		for _, kind := range []string{"tx", "rx"} {
			if n := strings.Count(vm.Run(t, "ls /sys/class/net/"+link+"/queues"), kind+"-"); n != queues {
				t.Errorf("/sys has %d %s queues, wanted %d", n, kind, queues)
			}
		}
	}
}

func TestAStubKeepsWhatIsSetOfDataCenterBridgingForEachInterface(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	_, _, link := stubs(t)
	look := func(i string) string {
		return vm.Run(t, "dcb ets show dev "+i+"; dcb pfc show dev "+i+"; dcb app show dev "+i+"; dcb dcbx show dev "+i)
	}
	other := strings.TrimSpace(vm.Run(t, "ls /sys/class/net | grep roce | grep -vx "+link+" | head -n 1"))
	before, others := look(link), look(other)
	vm.Run(t, strings.ReplaceAll("dcb dcbx set dev N host ieee; dcb ets set dev N tc-tsa 0:ets 3:ets tc-bw 0:20 3:80 prio-tc 3:3; dcb pfc set dev N prio-pfc 3:on; dcb app add dev N dscp-prio 26:3", "N", link))
	t.Cleanup(func() {
		vm.Run(t, strings.ReplaceAll("dcb ets set dev N tc-tsa all:strict tc-bw all:0 prio-tc all:0; dcb pfc set dev N prio-pfc all:off; dcb app flush dev N", "N", link))
		if now := look(link); now != before {
			t.Errorf("it has\n%s\nand had\n%s", now, before)
		}
	})
	out := look(link)
	for _, want := range []string{"tc-bw 0:20 1:0 2:0 3:80 ", "tc-tsa 0:ets 1:strict 2:strict 3:ets ", "2:0 3:3 4:0", "2:off 3:on 4:off", "dscp-prio AF31:3", "host ieee"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if now := look(other); now != others {
		t.Errorf("%s has\n%s\nand had\n%s", other, now, others)
	}
}

func TestAStubsCarrierAndPortComeWhenTheLinkIsTrained(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	_, roce, link := stubs(t)
	const train = " >/sys/module/ibfake/parameters/train; "
	state := func() string {
		return vm.Run(t, "cat /sys/class/net/"+link+"/carrier; cat /sys/class/infiniband/"+roce+"/ports/1/state")
	}
	const with, without = "1\n4: ACTIVE\n", "0\n1: DOWN\n"
	again := "ip link set " + link + " down; ip link set " + link + " up"
	t.Cleanup(func() {
		vm.Run(t, "echo 0"+train+again)
		if now := state(); now != with {
			t.Errorf("at once it has %q, wanted %q", now, with)
		}
	})
	vm.Run(t, "echo 3600000"+train+again)
	if now := state(); now != without {
		t.Errorf("while the link is trained it has %q, wanted %q", now, without)
	}
	vm.Run(t, "echo 100"+train+again)
	vm.Eventually(t, "the link is trained", func() bool { return state() == with })
}

func TestRDMACMTakesTheStubs(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	ib, roce, _ := stubs(t)
	for _, name := range []string{ib, roce} {
		folder := "/sys/kernel/config/rdma_cm/" + name
		if _, err := os.Stat(folder); err != nil {
			vm.Run(t, "mkdir "+folder)
			t.Cleanup(func() { vm.Run(t, "rmdir "+folder) })
		}
		out := vm.Run(t, "cd "+folder+"/ports/1; grep . default_roce_mode default_roce_tos")
		mode := "RoCE v2"
		if name == ib {
			mode = "IB/RoCE v1"
		}
		if want := "default_roce_mode:" + mode + "\ndefault_roce_tos:0\n"; out != want {
			t.Errorf("%s has %q, wanted %q", name, out, want)
		}
	}
}

func TestAStubHasThePKeysOfItsKind(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	ib, roce, _ := stubs(t)
	for name, want := range map[string][]string{
		ib:   {"0xffff", "0x8001", "0x8002", "0x7fff", "0x0000", "0x0000", "0x0000", "0x0000"},
		roce: {"0xffff"},
	} {
		if got := strings.Fields(vm.Run(t, "cat /sys/class/infiniband/"+name+"/ports/1/pkeys/*")); !slices.Equal(got, want) {
			t.Errorf("%s has P_Keys %v, wanted %v", name, got, want)
		}
	}
}

// sendMADs sends requests of 256 bytes to the port's own performance management
// (ib_user_mad.h), none of them is answered.
const sendMADs = `
import fcntl, os, struct, sys
node, lid, count = sys.argv[1], int(sys.argv[2], 0), int(sys.argv[3])
fd = os.open(node, os.O_RDWR)
agent = fcntl.ioctl(fd, 0xc01c1b01, struct.pack("=I16xBBB3xBx", 0, 1, 4, 1, 0))
header = agent[:4] + struct.pack(">16xIIHBBBBBB16xI", 1, 0x80010000, lid, 0, 0, 0, 0, 0, 0, 0)
for i in range(count):
    os.write(fd, header + struct.pack(">BBBBHHQHHI232x", 1, 4, 1, 1, 0, 0, i, 18, 0, 0))
`

func TestAStubCountsWhatItsQueuePairsSend(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	ib, _, _ := stubs(t)
	port := "/sys/class/infiniband/" + ib + "/ports/1/"
	counters := func() (all []int) {
		out := vm.Run(t, "cd "+port+"; cat counters/port_xmit_data counters/port_xmit_packets hw_counters/sent_bytes hw_counters/sent_packets")
		for _, text := range strings.Fields(out) {
			all = append(all, vm.Atoi(text))
		}
		return all
	}
	before := counters()
	node := strings.TrimSpace(vm.Run(t, "grep -lx "+ib+" /sys/class/infiniband_mad/umad*/ibdev | cut -d / -f 5"))
	const sent = 5
	vm.Run(t, "python3 -c "+vm.Quote(sendMADs)+" /dev/infiniband/"+node+" $(cat "+port+"lid) "+strconv.Itoa(sent))
	now := counters()
	for i, want := range []int{sent * 256 / 4, sent, sent * 256, sent} {
		if grown := now[i] - before[i]; grown < want {
			t.Errorf("counter %d has grown by %d, wanted %d at least", i, grown, want)
		}
	}
}

// sendFrames sends three Ethernet frames of a thousand bytes.
const sendFrames = `
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
for i in range(3):
    s.send(1000 * b"\xff")
`

func TestAStubCountsWhatEachQueueOfItsInterfaceSends(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	_, _, link := stubs(t)
	var all [2][2]int // before and after: packets and bytes
	var queues [2][2]int
	for i := range all {
		out := vm.Run(t, "ip -s -j link show dev "+link+" | jq '.[0].stats64.tx | .packets, .bytes'; ethtool -S "+link)
		lines := strings.SplitN(out, "\n", 3)
		all[i] = [2]int{vm.Atoi(lines[0]), vm.Atoi(lines[1])}
		for _, m := range regexp.MustCompile(`tx\d+_(packets|bytes): (\d+)`).FindAllStringSubmatch(lines[2], -1) {
			k := 0
			if m[1] == "bytes" {
				k = 1
			}
			queues[i][k] += vm.Atoi(m[2])
		}
		if i == 0 {
			vm.Run(t, "python3 -c "+vm.Quote(sendFrames)+" "+link)
		}
	}
	for k, least := range [2]int{3, 3000} {
		if all[1][k]-all[0][k] < least || queues[1][k]-queues[0][k] < least {
			t.Errorf("wanted %d more at least: the interface has %v, its queues have %v", least, all, queues)
		}
	}
}
