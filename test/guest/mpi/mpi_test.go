package mpi

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

func TestMPIByPMIxHasItsWholeWorld(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short, vm.EverySlurm)
	vm.NeedMPI(t)
	before := vm.Picture(t)
	for _, c := range []struct {
		name, environment string
		ranks             int
	}{
		{"2 ranks", "", 2},
		{"2 ranks by TCP", "OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include=lo", 2},
		{"16 ranks", "", 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := vm.As(t, "alice", c.environment+" "+vm.SrunMPI(c.ranks, "--gres=nic:1"))
			vm.WholeWorld(t, vm.Ranks(t, out), c.ranks, out)
			vm.Eventually(t, "the epilog has run", vm.NoLease)
		})
	}
	vm.Same(t, before)
}

func TestTwoMPIStepsAtOnceAreTwoWorlds(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.EverySlurm)
	vm.NeedMPI(t)
	before := vm.Picture(t)
	step := func(i int) string {
		return vm.SrunMPI(2, fmt.Sprintf("--exact --gres=nic:1 -o /tmp/world%d.out", i))
	}
	job := vm.Submit(t, "alice", "-n 4 --gres=nic:2", step(1)+" & "+step(2)+" & wait")
	vm.Ended(t, job)
	var nets []string
	for i := 1; i <= 2; i++ {
		out := vm.Run(t, fmt.Sprintf("cat /tmp/world%d.out", i))
		nets = append(nets, vm.WholeWorld(t, vm.Ranks(t, out), 2, out))
	}
	if nets[0] != nets[1] {
		t.Errorf("steps of one job are in two namespaces: %q", nets)
	}
	vm.Same(t, before)
}

func TestAnMPIStepThatIsCancelledOrCrashesLeavesNothing(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.EverySlurm)
	vm.NeedMPI(t)
	before := vm.Picture(t)
	for _, c := range []struct{ name, then, end string }{
		{"cancelled", "wait", "scancel %s.0"},
		{"a rank crashes", "crash", "true %s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := vm.Submit(t, "alice", "-n 2 --gres=nic:1", "THEN="+c.then+" "+vm.SrunMPI(2, "-K")+"; echo exit $?")
			out := "/tmp/" + job + ".out"
			vm.Eventually(t, "both ranks are there", func() bool {
				text, _ := vm.Try("cat " + out)
				return len(vm.Ranks(t, text)) == 2
			})
			vm.Run(t, fmt.Sprintf(c.end, job))
			vm.Ended(t, job)
			text := vm.Run(t, "cat "+out)
			vm.WholeWorld(t, vm.Ranks(t, text), 2, text)
			if !strings.Contains(text, "\nexit ") || strings.Contains(text, "\nexit 0\n") {
				t.Errorf("srun does not fail:\n%s", text)
			}
			if left, err := vm.Try("pgrep -l -f " + vm.MPIPath); err == nil {
				t.Errorf("processes are left: %s", left)
			}
			vm.Same(t, before)
		})
	}
}

//go:embed testdata/pmi2.py
var pmi2Program []byte

// PMI2 is spoken over a socket that tasks inherit, and so has no need of the relay. All
// Slurms have it, also those without a PMIx plugin.
func TestProgramsMeetByPMI2(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.Slurm(t)
	const path, size = "/tmp/pmi2.py", 4
	if err := os.WriteFile(path, pmi2Program, 0o644); err != nil {
		t.Fatal(err)
	}
	before := vm.Picture(t)
	out := vm.As(t, "alice", fmt.Sprintf("srun --mpi=pmi2 -n %d --gres=nic:1 python3 %s", size, path))
	host := strings.TrimSpace(vm.Run(t, vm.WhereAmI))
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
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}

// A server that listens elsewhere than on the loopback is one that no relay
// reaches. Open MPI would make a world of every rank, or hang.
func TestAStepWhosePMIxCannotBeRelayedFailsWithTheReason(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short, vm.EverySlurm)
	vm.NeedMPI(t)
	before := vm.Picture(t)
	vm.Run(t, "echo PMIxEnv=PMIX_MCA_ptl_base_if_include=eth0 >/etc/slurm/mpi.conf")
	vm.RestartSlurm(t)
	t.Cleanup(func() {
		vm.Run(t, "rm /etc/slurm/mpi.conf")
		vm.RestartSlurm(t)
	})
	out, err := vm.TryAs("alice", vm.SrunMPI(2, "--gres=nic:1"))
	if err == nil || !strings.Contains(out, "gresnet: job") || !strings.Contains(out, "the PMIx server does not listen on 127.0.0.1") {
		t.Errorf("srun: %v\n%s", err, out)
	}
	if got := vm.Ranks(t, out); len(got) != 0 {
		t.Errorf("ranks have run: %v", got)
	}
	vm.Eventually(t, "the epilog has run", vm.NoLease)
	vm.Same(t, before)
}
