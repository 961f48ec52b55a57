package guest

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/mpi.py
var mpiProgram []byte

const mpiPath = "/tmp/mpi.py"

// needMPI brings the MPI program, and skips where Slurm has no PMIx to run it
// with, as in Debian's packages of Slurm 26.05.
func needMPI(t *testing.T) {
	t.Helper()
	slurm(t)
	if !strings.Contains(run(t, "srun --mpi=list 2>&1"), "pmix") {
		t.Skip("this Slurm has no PMIx plugin")
	}
	if err := os.WriteFile(mpiPath, mpiProgram, 0o644); err != nil {
		t.Fatal(err)
	}
}

// srunMPI is the command of a step of so many ranks.
func srunMPI(ranks int, options string) string {
	return fmt.Sprintf("srun --mpi=pmix -n %d %s python3 %s", ranks, options, mpiPath)
}

// rankOf is one line of the program's output.
type rankOf struct {
	rank, size, sum, arrived, listeners int
	net, node                           string
}

// ranks reads the program's output.
func ranks(t *testing.T, out string) []rankOf {
	t.Helper()
	var all []rankOf
	for line := range strings.Lines(out) {
		var r rankOf
		if n, _ := fmt.Sscanf(line, "rank=%d size=%d sum=%d arrived=%d listeners=%d net=%s node=%s",
			&r.rank, &r.size, &r.sum, &r.arrived, &r.listeners, &r.net, &r.node); n == 7 {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b rankOf) int { return a.rank - b.rank })
	return all
}

// wholeWorld fails unless the ranks are one world of that size, in one
// namespace that is not the node's, which it returns.
func wholeWorld(t *testing.T, all []rankOf, size int, out string) string {
	t.Helper()
	oneWorld(t, all, size, out)
	host := strings.TrimSpace(run(t, "readlink /proc/self/ns/net"))
	for i, r := range all {
		if r.net == host || r.net != all[0].net {
			t.Errorf("rank %d is in %s, rank 0 in %s, the node in %s", i, r.net, all[0].net, host)
		}
	}
	return all[0].net
}

// oneWorld fails unless the ranks are one world of that size, wherever they are.
func oneWorld(t *testing.T, all []rankOf, size int, out string) {
	t.Helper()
	if len(all) != size {
		t.Fatalf("%d ranks report, wanted %d:\n%s", len(all), size, out)
	}
	for i, r := range all {
		arrived := 0
		if i < 2 {
			arrived = 1 << 20
		}
		if r.rank != i || r.size != size || r.sum != size*(size-1)/2 || r.arrived != arrived {
			t.Errorf("rank %d: %+v, wanted a world of %d", i, r, size)
		}
		if r.listeners != 0 {
			t.Errorf("rank %d has %d listening sockets of Slurm's", i, r.listeners)
		}
	}
}

func TestMPIByPMIxHasItsWholeWorld(t *testing.T) {
	needMPI(t)
	before := picture(t)
	for _, c := range []struct {
		name, environment string
		ranks             int
	}{
		{"2 ranks", "", 2},
		{"2 ranks by TCP", "OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo", 2},
		{"16 ranks", "", 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := as(t, "alice", c.environment+" "+srunMPI(c.ranks, "--gres=nic:1"))
			wholeWorld(t, ranks(t, out), c.ranks, out)
			eventually(t, "the epilog has run", noLease)
		})
	}
	same(t, before)
}

func TestTwoMPIStepsAtOnceAreTwoWorlds(t *testing.T) {
	needMPI(t)
	before := picture(t)
	step := func(i int) string {
		return srunMPI(2, fmt.Sprintf("--exact --gres=nic:1 -o /tmp/world%d.out", i))
	}
	job := submit(t, "alice", "-n 4 --gres=nic:2", step(1)+" & "+step(2)+" & wait")
	ended(t, job)
	var nets []string
	for i := 1; i <= 2; i++ {
		out := run(t, fmt.Sprintf("cat /tmp/world%d.out", i))
		nets = append(nets, wholeWorld(t, ranks(t, out), 2, out))
	}
	if nets[0] != nets[1] {
		t.Errorf("steps of one job are in two namespaces: %q", nets)
	}
	same(t, before)
}

func TestAnMPIStepThatIsCancelledOrCrashesLeavesNothing(t *testing.T) {
	needMPI(t)
	before := picture(t)
	for _, c := range []struct{ name, then, end string }{
		{"cancelled", "wait", "scancel %s.0"},
		{"a rank crashes", "crash", "true %s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := submit(t, "alice", "-n 2 --gres=nic:1", "THEN="+c.then+" "+srunMPI(2, "-K")+"; echo exit $?")
			out := "/tmp/" + job + ".out"
			eventually(t, "both ranks are there", func() bool {
				text, _ := try("cat " + out)
				return len(ranks(t, text)) == 2
			})
			run(t, fmt.Sprintf(c.end, job))
			ended(t, job)
			text := run(t, "cat "+out)
			wholeWorld(t, ranks(t, text), 2, text)
			if !strings.Contains(text, "\nexit ") || strings.Contains(text, "\nexit 0\n") {
				t.Errorf("srun does not fail:\n%s", text)
			}
			if left, err := try("pgrep -l -f " + mpiPath); err == nil {
				t.Errorf("processes are left: %s", left)
			}
			same(t, before)
		})
	}
}

//go:embed testdata/pmi2.py
var pmi2Program []byte

// PMI2 is spoken over a socket that tasks inherit, and so has no need of the relay. All
// Slurms have it, also those without a PMIx plugin.
func TestProgramsMeetByPMI2(t *testing.T) {
	slurm(t)
	const path, size = "/tmp/pmi2.py", 4
	if err := os.WriteFile(path, pmi2Program, 0o644); err != nil {
		t.Fatal(err)
	}
	before := picture(t)
	out := as(t, "alice", fmt.Sprintf("srun --mpi=pmi2 -n %d --gres=nic:1 python3 %s", size, path))
	host := strings.TrimSpace(run(t, whereAmI))
	cards := map[int]string{}
	for line := range strings.Lines(out) {
		var rank, world int
		var card, neighbour string
		if n, _ := fmt.Sscanf(line, "rank=%d size=%d card=%s neighbour=%s", &rank, &world, &card, &neighbour); n != 4 {
			continue
		}
		_, net, _ := strings.Cut(card, "@")
		if want := fmt.Sprintf("%d@%s", (rank+1)%size, net); world != size || net == host || neighbour != want {
			t.Errorf("wanted a world of %d, outside of the node's %s, and %s for a neighbour: %s", size, host, want, line)
		}
		cards[rank] = card
	}
	if len(cards) != size {
		t.Errorf("%d ranks report, wanted %d:\n%s", len(cards), size, out)
	}
	eventually(t, "the epilog has run", noLease)
	same(t, before)
}

// A server that listens elsewhere than on the loopback is one that no relay
// reaches. Open MPI would make a world of every rank, or hang.
func TestAStepWhosePMIxCannotBeRelayedFailsWithTheReason(t *testing.T) {
	needMPI(t)
	before := picture(t)
	run(t, "echo PMIxEnv=PMIX_MCA_ptl_base_if_include=eth0 >/etc/slurm/mpi.conf")
	slurmAnew(t)
	t.Cleanup(func() {
		run(t, "rm /etc/slurm/mpi.conf")
		slurmAnew(t)
	})
	out, err := tryAs("alice", srunMPI(2, "--gres=nic:1"))
	if err == nil || !strings.Contains(out, "gresnet: job") || !strings.Contains(out, "the PMIx server does not listen on 127.0.0.1") {
		t.Errorf("srun: %v\n%s", err, out)
	}
	if got := ranks(t, out); len(got) != 0 {
		t.Errorf("ranks have run: %v", got)
	}
	eventually(t, "the epilog has run", noLease)
	same(t, before)
}
