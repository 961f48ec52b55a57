package law

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// setting is one thing that an administrator may give an interface N, number I,
// and what takes it away again.
type setting struct{ give, take string }

// settings are for any interface; only one of each is drawn.
var settings = []setting{
	{"ip addr add 10.I.1.1/24 dev N; ip addr add 10.I.1.2/24 dev N; ip addr add 10.I.1.3/24 dev N", "ip addr del 10.I.1.1/24 dev N; ip addr del 10.I.1.2/24 dev N; ip addr del 10.I.1.3/24 dev N"},
	{"ip addr add 10.I.2.1/32 peer 10.I.2.9 dev N scope link", "ip addr del 10.I.2.1/32 peer 10.I.2.9 dev N"},
	{"ip addr add 10.I.3.1/24 dev N label N:x noprefixroute metric 300", "ip addr del 10.I.3.1/24 dev N"},
	{"ip addr add 10.I.4.1/24 dev N valid_lft 5000 preferred_lft 4000", "ip addr del 10.I.4.1/24 dev N"},
	{"ip -6 addr add fd00:I:1::1/64 dev N nodad; ip -6 addr add fd00:I:1::2/64 dev N nodad", "ip -6 addr del fd00:I:1::1/64 dev N; ip -6 addr del fd00:I:1::2/64 dev N"},
	{"ip route add 172.20.I.0/24 via 10.I.0.1 dev N table 10I src 10.I.0.2 mtu 1400; ip rule add from 10.I.0.2 table 10I pref 10I", "ip rule del pref 10I; ip route flush table 10I"},
	{"ip rule add iif N table 200 pref 20I; ip -6 rule add oif N table 200 pref 20I", "ip rule del pref 20I; ip -6 rule del pref 20I"},
	{"ip route add 172.21.I.0/24 nexthop via 10.I.0.1 dev N nexthop via 10.I.0.3 dev N weight 3", "ip route del 172.21.I.0/24"},
	{"ip route add 172.23.I.0/24 via 192.0.2.254 dev eth0 src 10.I.0.2", "ip route del 172.23.I.0/24"},
	{"ip link property add dev N altname altI altname a-long-alternative-name-of-numberI", "ip link property del dev N altname altI altname a-long-alternative-name-of-numberI"},
	{"ip link set N alias 'rail I' txqueuelen 333 group 7", "ip link set N alias '' txqueuelen OLDQ group 0"},
	{"echo 2 >/proc/sys/net/ipv4/conf/N/rp_filter; echo 1 >/proc/sys/net/ipv4/conf/N/arp_ignore", "echo 0 >/proc/sys/net/ipv4/conf/N/rp_filter; echo 0 >/proc/sys/net/ipv4/conf/N/arp_ignore"},
	{"echo 0 >/proc/sys/net/ipv6/conf/N/accept_ra; echo 77 >/proc/sys/net/ipv4/neigh/N/gc_stale_time", "echo 1 >/proc/sys/net/ipv6/conf/N/accept_ra; echo 60 >/proc/sys/net/ipv4/neigh/N/gc_stale_time"},
	{"tc qdisc replace dev N root QDISC", "tc qdisc del dev N root"},
	{"ip link set N multicast off allmulticast on", "ip link set N multicast on allmulticast off"},
	{"ethtool -K N gro off", "ethtool -K N gro on"},
	{"ethtool -G N rx 512 tx 2048; ethtool -L N combined 3; ethtool --set-priv-flags N rx_striding_rq on", "ethtool -G N rx 1024 tx 1024; ethtool -L N combined 4; ethtool --set-priv-flags N rx_striding_rq off"},
	{"echo 3 >/sys/class/net/N/queues/rx-0/rps_cpus; echo 77000 >/sys/class/net/N/gro_flush_timeout", "echo 0 >/sys/class/net/N/queues/rx-0/rps_cpus; echo 0 >/sys/class/net/N/gro_flush_timeout"},
	{"f=/sys/kernel/config/rdma_cm/$(ls /sys/class/net/N/device/infiniband); mkdir $f; echo 10I >$f/ports/1/default_roce_tos", "f=/sys/kernel/config/rdma_cm/$(ls /sys/class/net/N/device/infiniband); echo 0 >$f/ports/1/default_roce_tos; rmdir $f"},
}

var qdiscs = []string{"fq_codel limit 500", "fq_codel target 4321 interval 54321 ce_threshold 1234", "codel target 7777", "fq", "cake bandwidth 10gbit", "pfifo limit 77", "bfifo limit 100000"}

// ethernet and infiniband are for interfaces of the one kind.
var ethernet = []setting{
	{"ip neigh add proxy 10.I.0.88 dev N", "ip neigh del proxy 10.I.0.88 dev N"},
	{"ip nexthop add id 10I via 10.I.0.1 dev N; ip route add 172.22.I.0/24 nhid 10I", "ip route del 172.22.I.0/24; ip nexthop del id 10I"},
	{"ip link set N mtu 4321", "ip link set N mtu 9000"},
	{"dcb app add dev N dscp-prio 26:3 46:5 default-prio 1; dcb pfc set dev N prio-pfc 3:on", "dcb app flush dev N; dcb pfc set dev N prio-pfc 3:off"},
	{"ip link set N address 02:11:22:33:44:0I", "ip link set N address OLDMAC"},
	{"ip neigh add 10.I.0.77 lladdr 02:00:00:00:00:77 dev N nud permanent", "ip neigh del 10.I.0.77 dev N"},
	{"ip link add link N name mvI type macvlan mode bridge; ip link set mvI up; ip addr add 10.I.5.1/24 dev mvI; ip -6 addr add fd00:I:5::1/64 dev mvI nodad", "ip link del mvI"},
	{"ip link add link N name vlI type vlan id 7; ip link set vlI up; ip addr add 10.I.6.1/24 dev vlI; ip route add 172.24.I.0/24 via 10.I.6.9; ip link add link N name vmI type vlan id 8; ip link set vmI mtu 1500 up; ip addr add 10.I.8.1/24 dev vmI; ip link add link vmI name vnI type vlan id 8", "ip link del vnI; ip link del vmI; ip link del vlI"},
}

var infiniband = []setting{
	{"ip link set N mtu 1500", "ip link set N mtu 2044"},
	{"ip link add link N name N.8001 type ipoib pkey 0x8001; ip link set N.8001 up; ip addr add 10.I.7.1/24 dev N.8001", "ip link del N.8001"},
	{"ip link set N type ipoib umcast 1", "ip link set N type ipoib umcast 0"},
	{"ethtool -C N rx-usecs 16 rx-frames 8", "ethtool -C N rx-usecs 0 rx-frames 0"},
}

// configure gives the HCAs' interfaces settings at random and returns what gave them
// and what takes them away.
func configure(t *testing.T, r *rand.Rand) (given, undo string) {
	t.Helper()
	for _, name := range strings.Fields(vm.Run(t, "ls /sys/class/net | grep -E '^(roce|ib)[0-9]+$'")) {
		index := strings.Fields(vm.Run(t, "ip -4 -o addr show dev "+name))[3] // 10.I.0.2/24
		number := strings.Split(index, ".")[1]
		old := strings.Fields(vm.Run(t, "cat /sys/class/net/"+name+"/tx_queue_len /sys/class/net/"+name+"/address"))
		fill := strings.NewReplacer("OLDQ", old[0], "OLDMAC", old[1], "QDISC", qdiscs[r.IntN(len(qdiscs))], "N", name, "I", number)
		pool := settings
		if strings.HasPrefix(name, "ib") {
			pool = append(infiniband[:len(infiniband):len(infiniband)], pool...)
		} else {
			pool = append(ethernet[:len(ethernet):len(ethernet)], pool...)
		}
		for _, i := range r.Perm(len(pool))[:r.IntN(len(pool))] {
			given += fill.Replace(pool[i].give) + "\n"
			undo = fill.Replace(pool[i].take) + "\n" + undo
		}
	}
	vm.Run(t, given+"while ip -6 addr | grep -q tentative; do sleep 0.1; done")
	return given, undo
}

// killed runs a program as slurmd would, and ends it with SIGKILL after some
// time unless it is faster. It tells how long the program ran, and whether it ended by itself.
func killed(t *testing.T, program, job string, after time.Duration) (took time.Duration, done bool) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(vm.Repo() + "/bin/gresnet-" + program)
	cmd.Env = strings.Fields(strings.TrimPrefix(vm.SlurmdEnv, "env -i ") + job)
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	if took = time.Since(start); err == nil {
		return took, true
	}
	if cmd.ProcessState.ExitCode() >= 0 || out.Len() > 0 {
		t.Fatalf("%s: %v: %s", program, err, out.String())
	}
	return took, false
}

// share is how many of a long test's rounds this run does: several runs may share them.
func share(t *testing.T, all int) int {
	t.Helper()
	text := os.Getenv("GRESNET_ROUNDS")
	if text == "" {
		return all
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("GRESNET_ROUNDS=%s is not a number of rounds", text)
	}
	return n
}

func TestKillsAtRandomUnderRandomSettingsLoseNothing(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	vm.AnHCAOfEachKind(t)
	const job = "SLURM_JOB_ID=900070 SLURM_JOB_GPUS=0,1"
	const never = time.Hour
	first := vm.Seed(t)
	kills, round := 0, 0
	var full time.Duration // of a prolog that nobody kills
	var s uint64
	var given string
	defer func() {
		if t.Failed() {
			t.Logf("round %d; replay: GRESNET_SEED=%d\n%s", round, s, given)
		}
	}()
	for ; kills < vm.Rounds(3, 200); round++ {
		s = first + uint64(round)
		r := rand.New(rand.NewPCG(s, 0))
		var undo string
		given, undo = configure(t, r)
		before := vm.Picture(t)
		if round%4 == 0 {
			full, _ = killed(t, "prolog", job, never)
			vm.Must(t, "epilog", job)
			if vm.Same(t, before); t.Failed() {
				t.Fatal("without a kill")
			}
		}
		if _, done := killed(t, "prolog", job, time.Duration(r.Int64N(int64(full)))); !done {
			kills++
		}
		for range 1 + r.IntN(3) {
			if _, done := killed(t, "epilog", job, time.Duration(r.Int64N(int64(full)))); !done {
				kills++
			}
		}
		vm.Must(t, "epilog", job)
		if vm.Same(t, before); t.Failed() {
			t.Fatal("after a kill")
		}
		vm.Run(t, "set +e\n"+undo+"true") // some take others along
	}
	t.Logf("%d kills in %d rounds from seed %d", kills, round, first)
}

// hasIt is what is said of an HCA that another job has.
const hasIt = " has it since"

func TestAnyNumberOfJobsAtOnceShareOutTheHCAsAndLoseNone(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.Many)
	vm.Slurm(t)
	names := vm.HCAs(t)
	mapEach(t, names)
	// However slow the machine is: that many have to wait for each other.
	vm.Run(t, `printf '[deadline]\nprolog = "1h"\nepilog = "1h"\n' >>/etc/gresnet/gresnet.toml`)
	before := vm.Picture(t)
	jobs := 4 * len(names)
	most := 1
	if len(names) >= 16 { // a run of its own
		most = share(t, 50)
	}
	for round := range most {
		holder := make([]atomic.Int64, len(names)) // the job that has each HCA
		ended := make(chan int, jobs)
		for j := range jobs {
			go func() {
				defer func() { ended <- 1 }()
				hca := j % len(names)
				job := fmt.Sprintf("SLURM_JOB_ID=%d SLURM_JOB_GPUS=%d", 900200+j, hca)
				out, code := vm.ByHand(t, "prolog", job)
				if code != 0 && (code != 1 || !strings.Contains(out, hasIt)) {
					t.Errorf("prolog of job %d: exit %d: %s", j, code, out)
				}
				if code == 0 {
					if !holder[hca].CompareAndSwap(0, int64(900200+j)) {
						t.Errorf("job %d has HCA %d, and another job has it, too", j, hca)
					}
					if got, want := claimants(t, hca), []int{900200 + j}; !slices.Equal(got, want) {
						t.Errorf("HCA %d is claimed by %v, and leased to %v", hca, got, want)
					}
					holder[hca].Store(0)
				}
				if out, code := vm.ByHand(t, "epilog", job); code != 0 || out != "" {
					t.Errorf("epilog of job %d: exit %d: %s", j, code, out)
				}
			}()
		}
		for range jobs {
			<-ended
		}
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("round %d", round)
		}
		t.Logf("round %d of %d", round+1, most) // each may take minutes
	}
	t.Logf("%d jobs at once on %d HCAs, %d rounds", jobs, len(names), most)
}

// claimants are the jobs that have claimed the HCA of an index.
func claimants(t *testing.T, index int) (jobs []int) {
	t.Helper()
	text, err := os.ReadFile("/run/gresnet/node.json")
	if err != nil {
		t.Error(err)
		return nil
	}
	var table struct{ Claims []struct{ Job, Index int } }
	if err := json.Unmarshal(text, &table); err != nil {
		t.Errorf("read the node's table: %v", err)
	}
	for _, c := range table.Claims {
		if c.Index == index {
			jobs = append(jobs, c.Job)
		}
	}
	return jobs
}
