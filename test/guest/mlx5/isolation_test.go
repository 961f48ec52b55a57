package mlx5

import (
	_ "embed"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"gresnet/test/guest/vm"
)

//go:embed verbs.py
var verbs []byte

// A program is one of verbs in a job of Slurm's, which does what a test asks.
type program struct {
	t      *testing.T
	job    string
	socket string
}

// starts has a job of alice's run the program with the HCA of one GPU.
func starts(t *testing.T) program {
	t.Helper()
	if err := os.WriteFile("/tmp/verbs.py", verbs, 0o644); err != nil {
		t.Fatal(err)
	}
	script := own + "exec python3 /tmp/verbs.py /tmp/verbs.$SLURM_JOB_ID $d $gid /tmp/end.$SLURM_JOB_ID"
	job := vm.Submit(t, "alice", "--gres=gpu:1", "srun bash -ec "+vm.Quote(script))
	p := program{t, job, "/tmp/verbs." + job}
	vm.Eventually(t, "job "+job+"'s program runs", func() bool {
		if state, _ := vm.Try("squeue -h -j " + job + " -o %T"); strings.TrimSpace(state) == "" {
			t.Fatalf("job %s has ended: %s", job, vm.Run(t, "cat /tmp/"+job+".out"))
		}
		_, err := os.Stat(p.socket)
		return err == nil
	})
	return p
}

// ask returns the program's answer to a command.
func (p program) ask(format string, a ...any) string {
	p.t.Helper()
	peer, err := net.Dial("unix", p.socket)
	if err != nil {
		p.t.Fatal(err)
	}
	defer peer.Close()
	fmt.Fprintf(peer, format+"\n", a...)
	answer, err := io.ReadAll(peer)
	if err != nil || len(answer) == 0 {
		p.t.Fatalf("job %s: %s: %q, %v", p.job, fmt.Sprintf(format, a...), answer, err)
	}
	return strings.TrimSpace(string(answer))
}

func (p program) device() string { return strings.Fields(p.ask("about"))[0] }
func (p program) pid() string    { return strings.Fields(p.ask("about"))[1] }

// ends has the job end by itself, and waits for its epilog.
func (p program) ends() {
	p.t.Helper()
	vm.Run(p.t, "touch /tmp/end."+p.job)
	vm.Ended(p.t, p.job)
}

// joined connects a new queue pair of each program with the other's, and returns the first's number.
func joined(a, b program) (number string) {
	a.t.Helper()
	one, other := a.ask("pair"), b.ask("pair")
	for p, peer := range map[program]string{a: other, b: one} {
		if said := p.ask("connect %s", peer); said != "connected" {
			a.t.Fatalf("job %s: %s", p.job, said)
		}
	}
	return strings.Fields(one)[0]
}

// rails gives the interfaces of the first two HCAs addresses by which they reach each other.
func rails(t *testing.T, hcas []hca) {
	t.Helper()
	for i, h := range hcas[:2] {
		address := fmt.Sprintf(rail+"/24 dev %s", i+1, h.net)
		vm.Run(t, "ip addr add "+address)
		t.Cleanup(func() { vm.Run(t, "ip addr del "+address) })
	}
}

// holds fails unless the program's memory is as it should be.
func (p program) holds(n int, want string) {
	p.t.Helper()
	if now := p.ask("read %d", n); now != want {
		p.t.Errorf("the memory of job %s is %q instead of %q", p.job, now, want)
	}
}

const untouched = "--------"

// TestAProcessThatOutlivesItsJobKeepsNoHCAThatAnotherJobHas has one write to another job's memory before and after the
// end of its own job. It left the job's cgroup, as by a daemon that root started for the user.
func TestAProcessThatOutlivesItsJobKeepsNoHCAThatAnotherJobHas(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.MLX5)
	hcas := begin(t)
	rails(t, hcas)
	before := vm.Picture(t)
	left, peer := starts(t), starts(t)
	if left.device() != hcas[0].name {
		t.Fatalf("the first job has %s", left.device())
	}
	number, memory := joined(left, peer), peer.ask("memory")
	if said := left.ask("write %s outlives", memory); said != "SUCCESS" {
		t.Fatal(said)
	}
	peer.holds(0, "outlives")
	pid := left.pid()
	t.Cleanup(func() { vm.Run(t, "kill -9 "+pid+" 2>/dev/null || true") })
	vm.Run(t, "echo "+pid+" >/sys/fs/cgroup/cgroup.procs")
	left.ends()
	if vm.IsExclusive(t) {
		if said := left.ask("memory"); !strings.Contains(said, "error") {
			t.Errorf("after its job it registers memory: %s", said)
		}
		next := starts(t)
		if next.device() != hcas[0].name {
			t.Errorf("the next job has %s", next.device())
		}
		t.Logf("posts: %s", left.ask("post %s toolate!", memory))
		connected := fmt.Sprintf("0: queue pair %s is connected", number)
		said := count(t, connected)
		order(t, "show 0")
		if count(t, connected) != said {
			t.Error("the HCA has its queue pair still")
		}
		if said := left.ask("poll"); said != "nothing" {
			t.Errorf("the HCA did what it posted: %s", said)
		}
		peer.holds(0, "outlives")
		joined(next, peer)
		if said := next.ask("write %s nextjob!", memory); said != "SUCCESS" {
			t.Errorf("the next job's write: %s", said)
		}
		peer.holds(0, "nextjob!")
		next.ends()
	} else {
		if said := left.ask("write %s muchmore", memory); said != "SUCCESS" {
			t.Errorf("docs/security.md says that it may go on: %s", said)
		}
		out := vm.Run(t, vm.Repo()+"/bin/gresnet status")
		if !strings.Contains(out, "(pid "+pid+")") {
			t.Errorf("status does not name it:\n%s", out)
		}
		if out := vm.Script(t, "--gres=gpu:1", "srun true"); !strings.Contains(out, "(pid "+pid+")") {
			t.Errorf("a job that needs the HCA says:\n%s", out)
		}
	}
	vm.Run(t, "kill -9 "+pid+"; while kill -0 "+pid+" 2>/dev/null; do sleep 0.1; done")
	last := starts(t)
	if last.device() != hcas[0].name {
		t.Errorf("the last job has %s", last.device())
	}
	last.ends()
	peer.ends()
	vm.Same(t, before)
}

func count(t *testing.T, line string) int {
	t.Helper()
	text, err := os.ReadFile(firmwareLog)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), line)
}

// TestAJobsKeysOpenNoMemoryOfTheJobThatHasItsHCANext has a job's peer go on, on another HCA, when the next job is on the
// first one's HCA.
func TestAJobsKeysOpenNoMemoryOfTheJobThatHasItsHCANext(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Long, vm.MLX5)
	hcas := begin(t)
	rails(t, hcas)
	before := vm.Picture(t)
	first, peer := starts(t), starts(t)
	joined(first, peer)
	old := first.ask("memory")
	if said := peer.ask("write %s firstjob", old); said != "SUCCESS" {
		t.Fatal(said)
	}
	first.holds(0, "firstjob")
	first.ends()
	next := starts(t)
	if next.device() != hcas[0].name {
		t.Fatalf("the next job has %s", next.device())
	}
	memory, apart := next.ask("memory"), next.ask("memory apart")
	address, key, _ := strings.Cut(memory, " ")
	apartAt, apartKey, _ := strings.Cut(apart, " ")
	_, oldKey, _ := strings.Cut(old, " ")
	t.Logf("keys: the first job's %s, the next one's %s and %s", oldKey, key, apartKey)
	if said := peer.ask("write %s old-pair", old); said != "RETRY_EXC_ERR" {
		t.Errorf("by the queue pair that was connected with the first job's: %s", said)
	}
	if said := peer.ask("write %s old-pair", memory); said != "WR_FLUSH_ERR" {
		t.Errorf("and once more: %s", said)
	}
	n, _ := strconv.Atoi(key)
	wrong := []string{address + " " + apartKey, apartAt + " " + apartKey, fmt.Sprintf("%s %d", address, n+1), fmt.Sprintf("%s %d", address, n-1),
		fmt.Sprintf("%s %d", address, n+0x100), fmt.Sprintf("%s %d", address, n-0x100), address + " 256", address + " 0"}
	if oldKey != key {
		wrong = append(wrong, old, address+" "+oldKey)
	}
	for _, where := range wrong {
		joined(peer, next)
		if said := peer.ask("write %s guessed!", where); said != "REM_ACCESS_ERR" {
			t.Errorf("with the key of %s: %s", where, said)
		}
	}
	next.holds(0, untouched)
	next.holds(1, untouched)
	joined(peer, next)
	if said := peer.ask("write %s by-right", memory); said != "SUCCESS" {
		t.Errorf("with its key: %s", said)
	}
	next.holds(0, "by-right")
	next.ends()
	peer.ends()
	vm.Same(t, before)
}
