package invariant

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
	"gresnet/test/seed"
)

// The PFs of test/vm/vm's pfs, and the interface of the RoCE one.
const rocePF, ibPF, rocePFLink = "0000:01:00.0", "0000:02:00.0", "enp1s0"

// site is a node whose HCAs have parts, and a job that has one of each.
type site struct {
	config   string
	vfs      [2]int   // of the RoCE PF, and of the InfiniBand PF
	job      string   // one that is killed
	neighbor string   // one that has other parts meanwhile
	moving   []string // interfaces of HCAs that the job gets whole
}

// dressed are the numbers that vm.Dress gives these, and ibp2s0 between them.
var dressed = map[string]int{"ib0": 1, "roce0": 3}

// oneOf draws one of some texts.
func oneOf(r *rand.Rand, texts ...string) string { return texts[r.IntN(len(texts))] }

// draw draws a site.
func draw(t *testing.T, r *rand.Rand) (s site) {
	t.Helper()
	s.config = "[deadline]\nprolog = \"1h\"\nepilog = \"1h\"\n[slurm]\nsource = [\"gpu\"]\n"
	gpus := 0
	var mine, others []string
	entry := func(count int, text string) {
		served := make([]string, count)
		for i := range served {
			served[i] = fmt.Sprint(gpus + i)
		}
		s.config += fmt.Sprintf("[[hca]]\nindex = %d\ngpus = [%s]\n%s", gpus, strings.Join(served, ", "), text)
		own := r.IntN(count)
		mine = append(mine, served[own])
		if count > 1 {
			others = append(others, served[(own+1)%count])
		}
		gpus += count
	}
	for i, pf := range []string{rocePF, ibPF} {
		s.vfs[i] = 1 + r.IntN(3)
		entry(s.vfs[i], fmt.Sprintf("match = \"pci=%s\"\npart = \"vf\"\ncount = %d\n%s", pf, s.vfs[i], drawVF(r, i == 0)))
	}
	roce, ib := oneOf(r, "", "macvlan", "ipvlan", "shared"), oneOf(r, "", "pkey")
	slots := 4
	if vm.IsExclusive(t) { // one job at a time has an HCA
		roce, slots = "", 1
	}
	for _, h := range []struct{ link, part string }{{"roce0", roce}, {"ib0", ib}} {
		match := "rdma=" + placeOf(t, h.link).device
		switch h.part {
		case "":
			s.moving = append(s.moving, h.link)
			entry(1, fmt.Sprintf("match = %q\n", match))
		case "shared":
			entry(4, fmt.Sprintf("match = %q\npart = %q\ncount = 4\n", match, h.part))
		case "pkey":
			network := "network = \"10.129.0.0/16\"\n"
			if slots == 1 {
				s.moving = append(s.moving, h.link)
				network = "" // the address of a slot follows from the node's, and that is drawn, too
			}
			entry(slots, fmt.Sprintf("match = %q\npart = %q\ncount = %d\n%spkey = %s\n", match, h.part, slots, network, oneOf(r, "0x8001", "0x8002")))
		default:
			entry(4, fmt.Sprintf("match = %q\npart = %q\ncount = 4\nnetwork = \"10.128.0.0/16\"\n", match, h.part))
		}
	}
	s.job = "SLURM_JOB_ID=900080 SLURM_JOB_GPUS=" + strings.Join(mine, ",")
	if len(others) > 0 && r.IntN(2) == 0 {
		s.neighbor = "SLURM_JOB_ID=900081 SLURM_JOB_GPUS=" + strings.Join(others, ",")
	}
	return s
}

// drawVF draws what a PF does for its VFs.
func drawVF(r *rand.Rand, roce bool) string {
	var has []string
	if roce {
		for _, of := range [][]string{
			{"vlan = 7", "vlan = 100, qos = 3", "vlan = 100, proto = \"802.1ad\"", "vlan = 0"},
			{"max_rate = 5000", "min_rate = 5, max_rate = 900"},
			{"spoof_check = true", "spoof_check = false"}, {"trust = true", "trust = false"},
		} {
			if r.IntN(2) == 0 {
				has = append(has, oneOf(r, of...))
			}
		}
	}
	if r.IntN(2) == 0 {
		has = append(has, oneOf(r, "state = \"enable\"", "state = \"auto\""))
	}
	return "vf = {" + strings.Join(has, ", ") + "}\n"
}

// restrictNodes restricts device nodes that were made again, as the packages' rule for udev does.
func restrictNodes(t *testing.T) {
	t.Helper()
	vm.Run(t, "udevadm settle; "+vm.Repo()+"/bin/gresnet close")
}

// splitPFs makes a drawn site's VFs, with settings of the node's own at random, and returns the interfaces
// that are to get more settings.
func splitPFs(t *testing.T, r *rand.Rand, s site) (names []string) {
	t.Helper()
	vm.WriteConfig(t, s.config)
	vm.Run(t, "for pf in "+rocePF+" "+ibPF+"; do echo 0 >/sys/bus/pci/devices/$pf/sriov_numvfs; done; udevadm settle; "+vm.ForgetTable+"; "+vm.Repo()+"/bin/gresnet boot")
	restrictNodes(t)
	names = append(names, s.moving...)
	for i, pf := range []string{rocePF, ibPF} {
		for n := range s.vfs[i] {
			name := strings.TrimSpace(vm.Run(t, fmt.Sprintf("ls /sys/bus/pci/devices/%s/virtfn%d/net", pf, n)))
			names = append(names, name)
			dress(t, name, 4+3*i+n)
			if i == 0 {
				for _, set := range []string{"vlan 30 qos 5", "spoofchk on", "trust on", "max_tx_rate 900 min_tx_rate 1", "state enable"} {
					if r.IntN(3) == 0 {
						vm.Run(t, fmt.Sprintf("ip link set %s vf %d %s", rocePFLink, n, set))
					}
				}
			}
		}
	}
	return names
}

// inNoParts has the node's HCAs in no parts again.
func inNoParts(t *testing.T) {
	t.Helper()
	vm.WriteConfig(t, vm.Config)
	vm.Run(t, "for pf in "+rocePF+" "+ibPF+"; do echo 0 >/sys/bus/pci/devices/$pf/sriov_numvfs; done; udevadm settle; "+vm.ForgetTable+"; "+vm.Repo()+"/bin/gresnet close")
}

// dress gives a VF's interface what vm.Dress gives that of a whole HCA, each with a number of its own.
func dress(t *testing.T, name string, number int) {
	t.Helper()
	vm.Run(t, strings.NewReplacer("$N", name, "$I", fmt.Sprint(number)).Replace(`ip link set $N up
		case $N in enp* | roce*) ip link set $N mtu 9000 ;; esac
		ip addr replace 10.$I.0.2/24 dev $N
		ip -6 addr replace fd00:$I::2/64 dev $N nodad
		ip route replace 172.16.$I.0/24 via 10.$I.0.1 dev $N metric 77 proto static
		while ip -6 addr show dev $N | grep -q tentative; do sleep 0.1; done`))
}

func TestKillsAtRandomOfAJobWithPartsLoseNothing(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.VF)
	vm.Slurm(t)
	t.Cleanup(func() { inNoParts(t) })
	first := seed.Value()
	kills, round := 0, 0
	var s site
	defer func() {
		if t.Failed() {
			t.Logf("round %d of a job %s beside %q; replay: GRESNET_SEED=%d; the site:\n%s", round, s.job, s.neighbor, first+uint64(round), s.config)
		}
	}()
	for enough := share(t, vm.Rounds(3, 200)); kills < enough; round++ {
		r := rand.New(rand.NewPCG(first+uint64(round), 0))
		s = draw(t, r)
		names := splitPFs(t, r, s)
		drawn := configure(t, r, names)
		bare := vm.Picture(t)
		if s.neighbor == "" {
			kills += killSome(t, r, s.job, bare)
		} else {
			vm.Must(t, "prolog", s.neighbor)
			restrictNodes(t) // a move made those of the job's HCAs again
			kills += killSome(t, r, s.job, vm.Picture(t))
			vm.Must(t, "epilog", s.neighbor)
			if vm.Same(t, bare); t.Failed() {
				t.Fatal("after the job beside it")
			}
		}
		takeAway(t, drawn)
		for _, name := range s.moving {
			dress(t, name, dressed[name]) // some take them along
		}
		t.Logf("seed %d: %d and %d VFs, whole %q, a job beside it: %t, %d settings, %d kills so far", first+uint64(round), s.vfs[0], s.vfs[1], s.moving, s.neighbor != "", len(drawn), kills)
	}
	t.Logf("%d kills in %d rounds from seed %d", kills, round, first)
}
