package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/test/await"
	"gresnet/test/leasetest"
	"gresnet/test/netnstest"
	"gresnet/test/sitetest"
	"gresnet/test/standin"
)

const holderJob, nextJob = 1, 2

// heldNode is a node with two HCAs of which a job that lives has the first. What
// it logs can be read from the channel. Nothing of it is there: a prolog that
// could claim the HCAs fails when it looks at them.
func heldNode(t *testing.T, toml string) (*Host, chan string) {
	t.Helper()
	cfg := sitetest.Parse(t, toml)
	cfg.Uplink.Kind = config.UplinkNone
	log := make(chan string, 100)
	n := On(&host.Host{
		State: state.Dir(t.TempDir()), Sys: fstest.MapFS{}, Proc: fstest.MapFS{}, Config: cfg, Now: time.Now,
		Log: func(e event.Event) {
			log <- strings.TrimSpace(fmt.Sprintf("job %d: %s%s %v", e.Job, e.Action, e.Notice, e.Err))
		},
	})
	n.Undo = time.Minute
	if err := n.State.Make(); err != nil {
		t.Fatal(err)
	}
	l, err := create(t.Context(), n.Host, job.Job{ID: holderJob})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := os.WriteFile(n.State.Lease(holderJob).Env(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.update(t, func(now *table.Table) {
		now.HCAs = []node.HCA{{ID: leasetest.A, Name: "mlx5_0"}, {ID: leasetest.B, Name: "mlx5_1"}}
		now.Claims = []table.Claim{{HCA: leasetest.A, Name: "mlx5_0", Job: holderJob, Run: "0", Since: time.Date(2026, 11, 21, 10, 31, 0, 0, time.UTC)}}
	})
	return n, log
}

func (n *Host) update(t *testing.T, change func(*table.Table)) {
	t.Helper()
	err := n.Table().Update(t.Context(), func(now *table.Table) error { change(now); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

// returnHCA is what the holder's epilog does at its end.
func (n *Host) returnHCA(t *testing.T) {
	t.Helper()
	n.update(t, func(now *table.Table) { now.Claims = nil })
	if err := os.RemoveAll(string(n.State.Lease(holderJob))); err != nil {
		t.Fatal(err)
	}
}

const (
	byCount = "[slurm]\nsource = [\"policy\"]\n[[policy]]\ncount = 2\n"
	byIndex = "[slurm]\nsource = [\"policy\"]\n[[policy]]\nindices = [0]\n"
	byGPU   = "[slurm]\nsource = [\"gpu\"]\n[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\ngpus = [0]\n"
)

// byPart gives a job that has one of two GPUs their HCA if nobody has it.
const byPart = "[slurm]\nsource = [\"gpu\"]\npartial = \"first\"\n[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_0\"\ngpus = [0, 1]\n"

// next is a job that every one of these gives the first HCA.
var next = job.Job{ID: nextJob, UID: 1000, GID: 1000, GPUs: []int{0}}

func TestWhatAnotherJobHoldsOrIsQuarantinedIsARefusedLease(t *testing.T) {
	const has = "mlx5_0 (nic 0): job 1 has it since 2026-11-21 10:31:00"
	sick := func(now *table.Table) { now.Claims[0].Quarantined = "it hangs" }
	for name, c := range map[string]struct {
		toml    string
		change  func(*table.Table)
		refused string
	}{
		"a count that Slurm does not know of": {byCount, nil, "nic:2, which source policy says the job has: 1 of 2 are free here; " + has},
		"an index that it does not know of":   {byIndex, nil, "nic:1(IDX:0), which source policy says the job has: " + has},
		"a count that a sick HCA is missing from": {byCount, sick,
			"nic:2, which source policy says the job has: 1 of 2 are free here; mlx5_0 (nic 0): it is quarantined since job 1: it hangs"},
		"an index that is sick": {byIndex, sick, "nic:1(IDX:0), which source policy says the job has: mlx5_0 (nic 0): it is quarantined since job 1: it hangs"},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := heldNode(t, c.toml)
			if c.change != nil {
				n.update(t, c.change)
			}
			before, _ := n.Table().Read()
			err := n.Take(t.Context(), next)
			checkEnd(t, n, err, c.refused)
			if after, _ := n.Table().Read(); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("the table was %+v and is %+v", before, after)
			}
		})
	}
}

// Slurm counts a GPU of which jobs have shards for each of them.
func TestWhatALivingJobHasByAGPUThatItSharesIsARefusedLease(t *testing.T) {
	n, _ := heldNode(t, byGPU)
	n.Log = func(event.Event) {}
	defer externStep(t)()
	err := n.Take(t.Context(), next)
	checkEnd(t, n, err, sharedRefusal)
}

func TestAnEpilogWaitsForItsLeaseUntilTheDeadlineOfTheConfiguration(t *testing.T) {
	n, _ := heldNode(t, byGPU)
	n.Config.Deadline.Epilog = 20 * time.Millisecond
	held, err := state.TryLockJob(n.State.Locks(), holderJob)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := n.Restore(t.Context(), holderJob, nil); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrRemains) {
		t.Errorf("Restore: %v", err)
	}
}

const sharedRefusal = "nic:1(IDX:0), which source gpu says the job has: mlx5_0 (nic 0): job 1 has it since 2026-11-21 10:31:00"

// Jobs that share a GPU may well start at once: the prolog of the second wakes as that of
// the first ends, before slurmd has begun the first one's extern step.
func TestAJobThatIsAboutToStartIsWaitedForUntilItRuns(t *testing.T) {
	n, log := heldNode(t, byGPU)
	prolog, end := takeWhileHeld(t, t.Context(), n, log)
	prolog.Close()
	logged(t, log, end, "job 2: waits until job 1, which has mlx5_0, runs or is gone for sure: the job is not gone: the lease of job 1 is ")
	defer externStep(t)()
	checkEnd(t, n, <-end, sharedRefusal)
}

func TestAJobThatIsAboutToStartIsWaitedForWithinTheDeadline(t *testing.T) {
	n, log := heldNode(t, byGPU)
	ctx, deadline := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- n.Take(ctx, next) }()
	logged(t, log, end, "job 2: waits until job 1")
	deadline()
	<-end
	env, err := os.ReadFile(n.State.Lease(nextJob).Env())
	const want = "GRESNET_REFUSED=" + sharedRefusal + ": the job is not gone: the lease of job 1 is "
	if err != nil || !strings.Contains(string(env), want) || !strings.Contains(string(env), " [GN204]\n") {
		t.Errorf("lease %q, %v, wanted %s", env, err, want)
	}
}

func TestAProcessThatIsLeftOfAJobIsNamedToTheNextOne(t *testing.T) {
	n, log := heldNode(t, byGPU)
	left := inside(t, n)
	if err := os.WriteFile(n.State.Lease(holderJob).Mark(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, deadline := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- n.Take(ctx, next) }()
	logged(t, log, end, "job 2: waits until job 1")
	deadline()
	checkEnd(t, n, <-end, sharedRefusal+": the job is not gone: no step of it runs, but "+left+" is in its network namespace")
}

// inside starts a process in the holder's namespace, and says how it is named.
func inside(t *testing.T, n *Host) string {
	t.Helper()
	ns := netnstest.New(t)
	path := n.State.Lease(holderJob).Netns()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(ns.Path, path, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(path, unix.MNT_DETACH) })
	cmd := exec.Command("nsenter", "--net="+path, "cat", "/proc/self/comm", "-")
	standin.Start(t, cmd)
	return fmt.Sprintf("cat (pid %d)", cmd.Process.Pid)
}

// A line in slurmd's log is of use only if it says which job it is about.
func TestWhatIsWrongWithTheMappingNamesTheJob(t *testing.T) {
	const twice = "[[hca]]\nindex = 0\nmatch = \"rdma=mlx5_1\"\n[[hca]]\nindex = 1\nmatch = \"pci=11:00.0\"\n"
	const policy = "[slurm]\nsource = [\"policy\"]\n[[policy]]\nindices = [0]\n"
	gpus := fstest.MapFS{"driver/nvidia/gpus/0000:07:00.0/information": {Data: []byte("Device Minor: 0\n")}}
	sys := fstest.MapFS{
		"bus/pci/devices/0000:07:00.0":              {Data: []byte("../../../devices/pci0000:00/0000:07:00.0"), Mode: fs.ModeSymlink},
		"devices/pci0000:00/0000:07:00.0/numa_node": {Data: []byte("0\n")},
	}
	for _, c := range []struct {
		name, toml string
		gpus       []int
		err        string
	}{
		{"two entries for an HCA", policy + twice, nil, "claim HCAs for job 2: "},
		{"by GPU", "[slurm]\nsource = [\"gpu\"]\n" + twice, []int{0}, "ask source gpu about job 2: "},
		{"a type of another index", "[slurm]\nsource = [\"policy\"]\n[[hca]]\nindex = 0\ntype = \"a\"\nmatch = \"rdma=mlx5_1\"\n" +
			"[[hca]]\nindex = 1\ntype = \"b\"\nmatch = \"rdma=mlx5_0\"\n[[policy]]\ntype = \"b\"\nindices = [0]\n", nil,
			"claim HCAs for job 2: choose nic:b:1(IDX:0): "},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, _ := heldNode(t, c.toml)
			n.Sys, n.Proc = sys, gpus
			n.update(t, func(now *table.Table) { now.HCAs[1].ID.PCI = "0000:11:00.0" })
			err := n.Take(t.Context(), job.Job{ID: nextJob, UID: 1000, GID: 1000, GPUs: c.gpus})
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("error %v, want %s", err, c.err)
			}
		})
	}
}

// checkEnd wants a refused lease with a reason.
func checkEnd(t *testing.T, n *Host, err error, refused string) {
	t.Helper()
	env, missing := os.ReadFile(n.State.Lease(nextJob).Env())
	said := regexp.MustCompile(`(?m)^GRESNET_REFUSED=` + regexp.QuoteMeta(refused) + ` \[GN\d{3}\]$`)
	if err != nil || missing != nil || !said.Match(env) {
		t.Errorf("error %v, lease %s, wanted it refused: %s", err, env, refused)
	}
}

// takeWhileHeld starts a prolog while the holder's epilog runs, and returns when
// it waits for that.
func takeWhileHeld(t *testing.T, ctx context.Context, n *Host, log chan string) (epilog *state.Lock, end chan error) {
	t.Helper()
	epilog, err := state.LockJob(t.Context(), n.State.Locks(), holderJob)
	if err != nil {
		t.Fatal(err)
	}
	end = make(chan error, 1)
	go func() { end <- n.Take(ctx, next) }()
	logged(t, log, end, "job 2: waits for the prolog or epilog of job 1, which has mlx5_0")
	return epilog, end
}

// logged waits for a line in the log.
func logged(t *testing.T, log chan string, end chan error, line string) {
	t.Helper()
	deadline := time.After(await.Most(t))
	for {
		select {
		case got := <-log:
			if strings.HasPrefix(got, line) {
				return
			}
			t.Log(got)
		case err := <-end:
			t.Fatalf("it ended with %v before it logged %q", err, line)
		case <-deadline:
			t.Fatalf("it did not log %q", line)
		}
	}
}

func TestAPrologWaitsForAnEpilogThatRuns(t *testing.T) {
	for name, toml := range map[string]string{"for a count": byCount, "for an index": byIndex, "for a GPU's": byGPU, "for what is the first one's": byPart} {
		t.Run(name, func(t *testing.T) {
			n, log := heldNode(t, toml)
			epilog, end := takeWhileHeld(t, t.Context(), n, log)
			n.returnHCA(t)
			epilog.Close()
			logged(t, log, end, "job 2: do claim <nil>")
			var taken *gres.Taken
			if err := <-end; errors.As(err, &taken) {
				t.Errorf("it has claimed, and fails of it: %v", err)
			}
		})
	}
}

// What the first of several jobs has, the next one has when that has ended, epilog or not.
func TestWhatTheFirstJobHasAndHoldsNoMoreIsTheNextOnes(t *testing.T) {
	n, log := heldNode(t, byPart)
	// Nobody is about to complete the holder's lease.
	if err := os.Remove(n.State.Lease(holderJob).Env()); err != nil {
		t.Fatal(err)
	}
	var taken *gres.Taken
	if err := n.Take(t.Context(), next); errors.As(err, &taken) {
		t.Errorf("it has claimed, and fails of it: %v", err)
	}
	logged(t, log, nil, "job 1: cleaned up: it was gone and held mlx5_0")
	logged(t, log, nil, "job 2: do claim <nil>")
}

func TestAJobDoesWithoutWhatTheFirstOneHasAndLives(t *testing.T) {
	n, log := heldNode(t, byPart)
	defer externStep(t)()
	if err := n.Take(t.Context(), next); err != nil {
		t.Error(err)
	}
	logged(t, log, nil, "job 2: does without mlx5_0, which job 1 has: the job is not gone: ")
	if _, err := os.Stat(string(n.State.Lease(nextJob))); err == nil {
		t.Error("the job has a lease")
	}
	if !n.holds(holderJob, leasetest.A) {
		t.Error("the job that lives has the HCA no more")
	}
}

func TestAJobIsRefusedWhatAnEpilogQuarantinesThatItWaitedFor(t *testing.T) {
	n, log := heldNode(t, byCount)
	epilog, end := takeWhileHeld(t, t.Context(), n, log)
	n.update(t, func(now *table.Table) { now.Claims[0].Quarantined = "it hangs" })
	epilog.Close()
	checkEnd(t, n, <-end, "nic:2, which source policy says the job has: 1 of 2 are free here; mlx5_0 (nic 0): it is quarantined since job 1: it hangs")
}

func TestAnEpilogIsWaitedForWithinTheDeadline(t *testing.T) {
	const has = "mlx5_0 (nic 0): job 1 has it since 2026-11-21 10:31:00"
	for toml, refused := range map[string]string{
		byCount: "nic:2, which source policy says the job has: 1 of 2 are free here; " + has,
		byGPU:   sharedRefusal,
	} {
		n, log := heldNode(t, toml)
		ctx, deadline := context.WithCancel(t.Context())
		epilog, end := takeWhileHeld(t, ctx, n, log)
		defer epilog.Close()
		deadline()
		checkEnd(t, n, <-end, refused)
	}
}

// Any user can keep a node busy, wherever its prolog is.
func TestAPrologWhoseTimeIsOverRefusesTheJobAndLeavesTheNodeInService(t *testing.T) {
	for where, busy := range map[string]func(*Host) (*state.Lock, error){
		"it restricts device nodes":    func(n *Host) (*state.Lock, error) { return state.LockFile(t.Context(), n.State.AccessLock()) },
		"an earlier run's epilog runs": func(n *Host) (*state.Lock, error) { return state.TryLockJob(n.State.Locks(), nextJob) },
		"it claims":                    func(n *Host) (*state.Lock, error) { return state.LockFile(t.Context(), n.State.NodeLock()) },
	} {
		t.Run(where, func(t *testing.T) {
			n, _ := heldNode(t, byIndex)
			n.Log = func(event.Event) {}
			n.returnHCA(t)
			held, err := busy(n)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			context.AfterFunc(ctx, func() { held.Close() })
			err = n.Take(ctx, next)
			env, missing := os.ReadFile(n.State.Lease(nextJob).Env())
			if err != nil || missing != nil || !strings.Contains(string(env), "\nGRESNET_REFUSED=what job 2 is to have: the prolog's time is over: ") {
				t.Errorf("error %v, lease %q", err, env)
			}
		})
	}
}

// In exclusive mode a process that blocks in a call on an HCA, in a page of FUSE say, keeps the kernel from moving it.
func TestAJobWhoseEarlierRunsHCAIsNotReturnedIsRefusedAndNeitherProgramFails(t *testing.T) {
	netnstest.Slow(t)
	n, _ := heldNode(t, byIndex)
	var warned string
	n.Log = func(e event.Event) { warned += e.Warning }
	n.returnHCA(t)
	first := job.Job{ID: nextJob, UID: 1000, GID: 1000}
	l, err := create(t.Context(), n.Host, first)
	if err != nil {
		t.Fatal(err)
	}
	claim := table.Claim{HCA: leasetest.A, Name: "mlx5_0", Job: nextJob, Run: first.Run.String()}
	for _, s := range []step.Step{&step.Claim{Claims: []table.Claim{claim}}, &step.RDMA{ID: leasetest.A, Name: "mlx5_0"}} {
		if err := l.AddEntry(s); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	n.update(t, func(now *table.Table) { now.Claims = []table.Claim{claim} })
	moves, err := state.LockHCA(t.Context(), n.State.Locks(), leasetest.A)
	if err != nil {
		t.Fatal(err)
	}
	defer moves.Close()

	if err := n.Restore(t.Context(), nextJob, &first.Run); !errors.Is(err, ErrRemains) {
		t.Errorf("the first run's epilog: %v", err)
	}
	second := first
	second.Run.Restart = 1
	if err := n.Take(t.Context(), second); err != nil {
		t.Errorf("the second run's prolog: %v", err)
	}
	env, _ := os.ReadFile(n.State.Lease(nextJob).Env())
	if !strings.Contains(string(env), "\nGRESNET_RUN=1\n") || !strings.Contains(string(env), "\nGRESNET_REFUSED=what job 2 is to have: ") {
		t.Errorf("the lease is %q", env)
	}
	warned = ""
	if err := n.Restore(t.Context(), nextJob, &second.Run); err != nil || !strings.Contains(warned, "an earlier move of it has not ended") {
		t.Errorf("the second run's epilog: %v, warned of %q", err, warned)
	}
	// A person hears of it each time.
	if err := n.Restore(t.Context(), nextJob, nil); !errors.Is(err, ErrRemains) {
		t.Errorf("by hand: %v", err)
	}
	now, err := n.Table().Read()
	if err != nil || len(now.Claims) != 1 || now.Claims[0].Quarantined == "" {
		t.Errorf("the table has %+v, %v", now.Claims, err)
	}
}
