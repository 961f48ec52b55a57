package vm

import (
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata/mpi.py
var MPIProgram []byte

const MPIPath = "/tmp/mpi.py"

// NeedMPI brings the MPI program, and skips where Slurm has no PMIx to run it
// with, as in Debian's packages of Slurm 26.05.
func NeedMPI(t *testing.T) {
	t.Helper()
	Slurm(t)
	if !strings.Contains(Run(t, "srun --mpi=list 2>&1"), "pmix") {
		t.Skip("this Slurm has no PMIx plugin")
	}
	if err := os.WriteFile(MPIPath, MPIProgram, 0o644); err != nil {
		t.Fatal(err)
	}
}

// SrunMPI returns the command of a step of so many ranks.
func SrunMPI(ranks int, options string) string {
	return fmt.Sprintf("srun --mpi=pmix -n %d %s python3 %s", ranks, options, MPIPath)
}

// RankOf is one line of the program's output.
type RankOf struct {
	rank, size, sum, arrived, listeners int
	Net, Node                           string
}

// Ranks reads the program's output.
func Ranks(t *testing.T, out string) []RankOf {
	t.Helper()
	var all []RankOf
	for line := range strings.Lines(out) {
		var r RankOf
		if n, _ := fmt.Sscanf(line, "rank=%d size=%d sum=%d arrived=%d listeners=%d net=%s node=%s",
			&r.rank, &r.size, &r.sum, &r.arrived, &r.listeners, &r.Net, &r.Node); n == 7 {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b RankOf) int { return a.rank - b.rank })
	return all
}

// WholeWorld fails unless the ranks are one world of that size, in one
// namespace that is not the node's, which it returns.
func WholeWorld(t *testing.T, all []RankOf, size int, out string) string {
	t.Helper()
	OneWorld(t, all, size, out)
	host := strings.TrimSpace(Run(t, "readlink /proc/self/ns/net"))
	for i, r := range all {
		if r.Net == host || r.Net != all[0].Net {
			t.Errorf("rank %d is in %s, rank 0 in %s, the node in %s", i, r.Net, all[0].Net, host)
		}
	}
	return all[0].Net
}

// OneWorld fails unless the ranks are one world of that size, wherever they are.
func OneWorld(t *testing.T, all []RankOf, size int, out string) {
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
