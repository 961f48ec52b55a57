package network

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

// rxeUp makes two software HCAs on the two ends of a virtual cable. Both ends
// are this node's, so rules make what goes from one to the other take the cable.
const rxeUp = `
modprobe rdma_rxe
ip link add cable0 type veth peer name cable1
ip rule del pref 0
ip rule add pref 100 lookup local
sysctl -qw net.ipv4.conf.all.rp_filter=0
for n in 0 1; do
	sysctl -qw net.ipv6.conf.cable$n.accept_dad=0
	ip link set cable$n up
	ip addr add 10.99.0.$((n + 1))/24 dev cable$n
	rdma link add rxe$n type rxe netdev cable$n
	sysctl -qw net.ipv4.conf.cable$n.accept_local=1 net.ipv4.conf.cable$n.rp_filter=0
	ip rule add pref 1 iif lo from 10.99.0.$((n + 1)) to 10.99.0.$((2 - n)) lookup $((n + 1))
	ip route add 10.99.0.$((2 - n)) dev cable$n table $((n + 1))
done
udevadm settle
`

const rxeDown = `
for n in 0 1; do
	rdma link delete rxe$n
	ip rule del pref 1
done
ip link delete cable0
ip rule add pref 0 lookup local
ip rule del pref 100
` + vm.ForgetTable + ` # it would know these HCAs until the next boot
`

const rxeConfig = `
[slurm]
source = ["gpu"]
[[hca]]
index = 0
match = "rdma=rxe0"
gpus = [0]
interface = "keep" # rxe goes with its interface
[[hca]]
index = 1
match = "rdma=rxe1"
gpus = [1]
interface = "keep"
`

// Since kernel 7.3 rxe can be moved in exclusive mode, and ends a moment after its interface
// has moved; before, it ends with that in shared mode.
func TestAnHCAThatWouldEndWithItsInterfaceIsRefusedBeforeAnythingIsChanged(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	vm.Run(t, rxeUp)
	defer vm.Run(t, rxeDown)
	vm.WriteConfig(t, strings.ReplaceAll(rxeConfig, "interface =", "# interface ="))
	defer vm.WriteConfig(t, vm.Config)
	vm.Run(t, vm.Repo()+"/bin/gresnet close") // what a prolog would do with new HCAs
	before := vm.Picture(t)
	const job = "SLURM_JOB_ID=900021 SLURM_JOB_GPUS=0,1"
	out, code := vm.ByHand(t, "prolog", job)
	for _, want := range []string{"driver rxe ends rxe0 when its interface cable0 is moved", `hint: set interface = "keep" in its [[hca]]`} {
		if code != 1 || !strings.Contains(out, want) {
			t.Errorf("prolog: exit %d, wanted 1 and %q: %s", code, want, out)
		}
	}
	vm.Same(t, before)
	vm.Must(t, "epilog", job)
	vm.Same(t, before)
	out, code = vm.Command(t, "gresnet try rxe0")
	if want := `driver rxe ends rxe0 when its interface cable0 is moved [GN200]; hint: set interface = "keep" in its [[hca]]`; code != 1 || !strings.Contains(out, want) {
		t.Errorf("try: exit %d, wanted 1 and %q:\n%s", code, want, out)
	}
	vm.Same(t, before)
}

// traffic writes from the memory behind one of the job's HCAs to that behind
// the other. The two ends find each other over the job's loopback interface.
const traffic = `
echo "has $GRESNET_HCAS"
gid() { grep -l ffff:0a63 /sys/class/infiniband/$1/ports/1/gids/* | head -n 1 | xargs basename; }
timeout $((60 * ${GRESNET_SLOW:-1})) ib_write_bw -d rxe0 -x $(gid rxe0) -s 4096 -n 200 >/tmp/ib_write_bw 2>&1 &
until ss -ltn | grep -q :18515; do
	kill -0 $! || { cat /tmp/ib_write_bw; exit 1; }
	sleep 0.1
done
timeout $((60 * ${GRESNET_SLOW:-1})) ib_write_bw -d rxe1 -x $(gid rxe1) -s 4096 -n 200 127.0.0.1
wait
`

// received returns how many packets an HCA has received from the other.
func received(t *testing.T, hca string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(vm.Run(t, "cat /sys/class/infiniband/"+hca+"/ports/1/hw_counters/rcvd_pkts")))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestRDMATrafficFlowsInsideAJob(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.Slurm(t)
	vm.Run(t, rxeUp)
	defer vm.Run(t, rxeDown)
	vm.WriteConfig(t, rxeConfig)
	defer vm.WriteConfig(t, vm.Config)
	vm.Run(t, vm.Repo()+"/bin/gresnet close") // what a prolog would do with new HCAs
	before := vm.Picture(t)
	if vm.Mode(t) == "exclusive" {
		const job = "SLURM_JOB_ID=900020 SLURM_JOB_GPUS=0"
		out, code := vm.ByHand(t, "prolog", job)
		if code == 0 {
			if has := vm.Run(t, "nsenter --net=/run/gresnet/jobs/900020/netns rdma -j dev | jq -r '.[].ifname'"); has != "rxe0\n" {
				t.Errorf("the job has %q", has)
			}
			vm.Must(t, "epilog", job)
		} else if code != 1 || !strings.Contains(out, "move RDMA device rxe0 into the job: its driver cannot be moved: operation not supported") {
			// Before kernel 7.3 this driver cannot be moved, and the kernel says so.
			t.Errorf("prolog: exit %d: %s", code, out)
		}
		vm.Same(t, before)
		return
	}
	packets := received(t, "rxe0")
	// ib_write_bw has no report to make, and fails, where it finds the processor's
	// clock too uneven, as an emulated one is: what counts is what arrived.
	out, err := vm.TryAs("alice", "srun --gres=gpu:2 bash -c "+vm.Quote(traffic))
	if !strings.Contains(out, "has rxe0,rxe1\n") {
		t.Errorf("the job has not been given the two HCAs:\n%s", out)
	}
	const most = 200 * 4096 / 1024 // packets of the path's MTU
	if packets = received(t, "rxe0") - packets; packets < most {
		t.Errorf("%d packets arrived, wanted %d: %v\n%s", packets, most, err, out)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}

// peerUp has rxe1 wait for who sends, by a host that the node reaches.
const peerUp = `
ip netns add far
ip link add far0 type veth peer name far1 netns far
ip addr add 10.98.0.1/24 dev far0
ip link set far0 up
ip -n far addr add 10.98.0.2/24 dev far1
ip -n far link set far1 up
setsid nsenter --net=/run/netns/far ib_write_bw -d rxe1 -F </dev/null >/tmp/peer 2>&1 &
until [ -n "$(ip netns exec far ss -Hltn sport = :18515)" ]; do
	kill -0 $! || { cat /tmp/peer; exit 1; }
	sleep 0.1
done
`

const peerDown = `
ip netns pids far | xargs -r kill
ip netns del far
`

func TestTryHasAnHCASendToAPeerFromInsideTheJob(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Long)
	vm.Slurm(t)
	vm.Run(t, rxeUp)
	defer vm.Run(t, rxeDown)
	vm.WriteConfig(t, rxeConfig+"[uplink]\nkind = \"auto\"\n[overlay]\nkind = \"none\"\n")
	defer vm.WriteConfig(t, vm.Config)
	if out, code := vm.Command(t, "gresnet try --peer 10.98.0.2 rxe0"); code != 1 || !strings.Contains(out, "inside: send to the peer: ib_write_bw: ") {
		t.Errorf("without a peer: exit %d:\n%s", code, out)
	}
	vm.Run(t, peerUp)
	defer vm.Run(t, peerDown)
	packets := received(t, "rxe1")
	out, code := vm.Command(t, "gresnet try --peer 10.98.0.2 rxe0")
	if packets = received(t, "rxe1") - packets; code != 0 || packets < 1000 || !regexp.MustCompile(`(?m)^rxe0 .* [0-9.]+ Gb/s +0 +good *$`).MatchString(out) {
		t.Errorf("exit %d, %d packets arrived:\n%s\n%s", code, packets, out, vm.Run(t, "cat /tmp/peer"))
	}
}

// The second HCA of the node, and what lists HCAs by itself: libibverbs, by netlink, and a script.
func TestAProgramThatTakesTheFirstHCAOfItsListGetsTheJobs(t *testing.T) {
	vm.Needs(t, vm.Shared, vm.Short)
	vm.Slurm(t)
	vm.Run(t, rxeUp)
	defer vm.Run(t, rxeDown)
	vm.WriteConfig(t, strings.NewReplacer("[0]", "[1]", "[1]", "[0]").Replace(rxeConfig))
	defer vm.WriteConfig(t, vm.Config)
	vm.Run(t, vm.Repo()+"/bin/gresnet close") // what a prolog would do with new HCAs
	before := vm.Picture(t)
	if all := vm.Run(t, "ibv_devices"); !strings.Contains(all, "rxe0") || !strings.Contains(all, "rxe1") {
		t.Fatalf("the node has not both HCAs: %s", all)
	}
	const first = `ls /sys/class/infiniband | head -n 1; ibv_devices | tail -n +3 | awk '{print $1}'; ibv_devinfo | grep hca_id`
	out := vm.As(t, "alice", "srun --gres=gpu:1 bash -c "+vm.Quote(first))
	if want := "rxe1\nrxe1\nhca_id:\trxe1\n"; out != want {
		t.Errorf("the job has rxe1, and finds\n%swanted\n%s", out, want)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}

// A device in software has the MAC of its interface for its GUID, and that is all that it is known by.
func TestTwoHCAsOfOneGUIDAreToldAndNoJobs(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.Slurm(t)
	vm.Run(t, `modprobe rdma_rxe; ip link add twin0 type veth peer name twin1; ip link set twin1 address $(cat /sys/class/net/twin0/address)
for n in 0 1; do ip link set twin$n up; rdma link add rxe$n type rxe netdev twin$n; done; udevadm settle`)
	defer vm.Run(t, "for n in 0 1; do rdma link delete rxe$n; done; ip link delete twin0; "+vm.ForgetTable)
	vm.WriteConfig(t, rxeConfig[:strings.LastIndex(rxeConfig, "[[hca]]")])
	defer vm.WriteConfig(t, vm.Config)
	if out := vm.Run(t, vm.Repo()+"/bin/gresnet scan"); !strings.Contains(out, "rxe1 has the GUID of rxe0, too: no job gets one of them") {
		t.Errorf("scan:\n%s", out)
	}
	vm.Run(t, vm.Repo()+"/bin/gresnet close")
	before := vm.Picture(t)
	const job = "SLURM_JOB_ID=900022 SLURM_JOB_GPUS=0"
	if out, code := vm.ByHand(t, "prolog", job); code != 1 || !strings.Contains(out, "rxe0 and rxe1 have one GUID, ") {
		t.Errorf("prolog: exit %d: %s", code, out)
	}
	vm.Must(t, "epilog", job)
	vm.Same(t, before)
}
