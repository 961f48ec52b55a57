package fault

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/test/guest/vm"
)

// hold makes the kernel's users of an HCA not let go of it; free ends that.
func hold(t *testing.T, hca string) {
	t.Helper()
	n := strings.TrimPrefix(hca, "ibfake")
	vm.Run(t, "echo "+n+" >/sys/module/ibfake/parameters/hold")
}

func free(t *testing.T) {
	t.Helper()
	vm.Run(t, "echo -1 >/sys/module/ibfake/parameters/hold")
}

const hangJob = "SLURM_JOB_ID=900040 SLURM_JOB_GPUS=0"

func TestAMoveThatHangsIsAbandonedAndTheHCAKeptFromLaterJobs(t *testing.T) {
	vm.Needs(t, vm.Both, vm.Short)
	names := vm.WithGPUs(t)
	before := vm.Picture(t)
	hold(t, names[0])
	defer free(t)
	out, code := vm.ByHand(t, "prolog", hangJob)
	if !vm.IsExclusive(t) {
		if code != 0 {
			t.Fatalf("prolog: exit %d: %s", code, out)
		}
		vm.Must(t, "epilog", hangJob)
		vm.Same(t, before)
		return
	}
	// Any user can keep the kernel so: it is no fault of the node's.
	env, _ := os.ReadFile("/run/gresnet/jobs/900040/env")
	if code != 0 || !strings.Contains(string(env), "\nGRESNET_REFUSED=") || !strings.Contains(string(env), "move RDMA device "+names[0]+" into the job: the move hangs in the kernel") {
		t.Errorf("prolog: exit %d: %s\n%s", code, out, env)
	}
	// Another job with another HCA comes and goes.
	const other = "SLURM_JOB_ID=900041 SLURM_JOB_GPUS=1"
	vm.Must(t, "prolog", other)
	vm.Must(t, "epilog", other)
	// The HCA is nobody's, and no epilog frees it while the move is under way.
	vm.IsRefused(t, 900042, "SLURM_JOB_GPUS=0", "quarantined")
	if out, code := vm.ByHand(t, "epilog", hangJob); code != 0 || !strings.Contains(out, "warning: as before, ") || !strings.Contains(out, "an earlier move of it has not ended") {
		t.Errorf("epilog while the move hangs: exit %d: %s", code, out)
	}
	if out, _ := vm.Command(t, "gresnet status"); !strings.Contains(out, names[0]+" (") || !strings.Contains(out, "the node needs a reboot") {
		t.Errorf("status while the move hangs:\n%s", out)
	}
	if out, code := vm.Command(t, "gresnet release "+names[0]); code != 2 || !strings.Contains(out, "an earlier move of it has not ended") {
		t.Errorf("release while the move hangs: exit %d: %s", code, out)
	}
	// The move lands after all: the next epilog returns the device.
	free(t)
	vm.Eventually(t, "the abandoned move has landed", func() bool {
		_, err := vm.Try("pgrep -x gresnet-mover")
		return err != nil
	})
	vm.Must(t, "epilog", hangJob)
	vm.Same(t, before)
}

// A person waits for the end, presses Ctrl-C, or kills it.
func TestTryNamesAMoveThatHangsAndTheNextTryGivesAllBack(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Long)
	names := vm.WithGPUs(t)
	before := vm.Picture(t)
	for end, want := range map[syscall.Signal]string{0: "the move hangs in the kernel", syscall.SIGINT: "an earlier move of it has not ended", syscall.SIGKILL: ""} {
		hold(t, names[0])
		var out bytes.Buffer
		cmd := exec.Command(vm.Repo()+"/bin/gresnet", "try", names[0])
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		vm.Eventually(t, "the move is under way", func() bool {
			_, err := vm.Try("pgrep -x gresnet-mover")
			return err == nil
		})
		if end != 0 {
			cmd.Process.Signal(end)
		}
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); end != syscall.SIGKILL && (code != 2 || !strings.Contains(out.String(), "something remains to be undone: move RDMA device") || !strings.Contains(out.String(), want)) {
			t.Errorf("after signal %d: exit %d, wanted %q:\n%s", end, code, want, out.String())
		}
		free(t)
		vm.Eventually(t, "the move has landed", func() bool {
			_, err := vm.Try("pgrep -x gresnet-mover")
			return err != nil
		})
		if out, code := vm.Command(t, "gresnet try "+names[0]); code != 0 || !strings.Contains(out, " good") {
			t.Errorf("the next try: exit %d:\n%s", code, out)
		}
		vm.Same(t, before)
	}
}

// One process moves both RDMA devices of the job, one after the other.
func TestAMoveThatHangsAmongOthersKeepsNoOtherHCAFromJobs(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	names := vm.WithGPUs(t)[2:] // RoCE
	vm.WriteConfig(t, strings.NewReplacer("HCA0", names[0], "HCA1", names[1]).Replace(vm.GPUConfig))
	before := vm.Picture(t)
	defer free(t)
	const both = "SLURM_JOB_ID=900044 SLURM_JOB_GPUS=0,1"
	for _, round := range []struct {
		hangs  int
		killed bool
	}{{0, false}, {0, true}, {1, false}} {
		hangs, other := names[round.hangs], names[1-round.hangs]
		hold(t, hangs)
		end := vm.Begin(t, "prolog", both)
		vm.Eventually(t, "the move is under way", func() bool {
			_, err := vm.Try("grep '\"kind\":\"rdma\".*" + names[1] + "' /run/gresnet/jobs/900044/journal && ps -C gresnet-mover -o stat= | grep D")
			return err == nil
		})
		if round.killed {
			vm.Run(t, "pkill -KILL -x gresnet-prolog")
		}
		_, code := end()
		env, _ := os.ReadFile("/run/gresnet/jobs/900044/env")
		_, out, _ := strings.Cut(string(env), "GRESNET_REFUSED=")
		want := 0
		if round.killed {
			want = 2
			out, code = vm.ByHand(t, "epilog", both)
		}
		if code != want || !strings.Contains(out, "RDMA device "+hangs) || strings.Contains(out, "RDMA device "+other) {
			t.Errorf("%+v: exit %d: %s", round, code, out)
		}
		job := fmt.Sprintf("SLURM_JOB_ID=900045 SLURM_JOB_GPUS=%d", 1-round.hangs)
		vm.Must(t, "prolog", job)
		vm.Must(t, "epilog", job)
		free(t)
		vm.Eventually(t, "the abandoned move has landed", func() bool {
			_, err := vm.Try("pgrep -x gresnet-mover")
			return err != nil
		})
		vm.Must(t, "epilog", both)
		vm.Same(t, before)
	}
}

func TestAPrologThatIsKilledInADelayedMoveLosesNothing(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	names := vm.WithGPUs(t)
	if !vm.IsExclusive(t) {
		return // nothing moves
	}
	before := vm.Picture(t)
	for round := range 3 {
		hold(t, names[0])
		program := fmt.Sprintf("%s %s %s/bin/gresnet-prolog", vm.SlurmdEnv, hangJob, vm.Repo())
		vm.Run(t, "("+program+" >/dev/null 2>&1 & echo $! >/tmp/pid)")
		vm.Eventually(t, "the move is under way", func() bool {
			journal, _ := os.ReadFile("/run/gresnet/jobs/900040/journal")
			locked, _ := vm.Try("flock -n /run/gresnet/locks/hca-* true || echo held")
			return strings.Contains(string(journal), `"kind":"rdma"`) && strings.Contains(locked, "held")
		})
		vm.Run(t, "pkill -KILL -x gresnet-prolog")
		// The epilog comes at once, and the move lands while it waits.
		end := vm.Begin(t, "epilog", hangJob)
		vm.Eventually(t, "the epilog runs", func() bool {
			_, err := vm.Try("pgrep -x gresnet-epilog")
			return err == nil
		})
		free(t)
		if out, code := end(); code != 0 || out != "" {
			t.Fatalf("epilog: exit %d: %s", code, out)
		}
		if vm.Same(t, before); t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

// The kernel is at a move for as long as it likes: no other job must wait for that.
func TestNobodyHoldsTheNodeLockWhileAnHCAMoves(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short)
	names := vm.WithGPUs(t)
	if !vm.IsExclusive(t) {
		return // nothing moves that can be held up
	}
	const nodeLock = "/run/gresnet/node.lock"
	vm.Must(t, "prolog", hangJob)
	vm.Must(t, "epilog", hangJob)
	before := vm.Picture(t)
	defer free(t)
	lock, err := os.Open(nodeLock) // open, so that none that replaces it has its inode's number
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	for _, program := range []string{"prolog", "epilog"} {
		hold(t, names[0])
		end := vm.Begin(t, program, hangJob)
		vm.Eventually(t, "the move is under way", func() bool {
			_, err := vm.Try("pgrep -x gresnet-mover")
			return err == nil
		})
		if out, err := vm.Try("flock -n " + nodeLock + " true"); err != nil {
			t.Errorf("%s: the node lock is held: %v %s", program, err, out)
		}
		const other = "SLURM_JOB_ID=900041 SLURM_JOB_GPUS=1"
		vm.Must(t, program, other)
		free(t)
		if out, code := end(); code != 0 || out != "" {
			t.Errorf("%s: exit %d %s", program, code, out)
		}
	}
	was, err := lock.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(nodeLock); err != nil || !os.SameFile(was, now) {
		t.Errorf("the node lock is another file now: %v", err)
	}
	vm.Same(t, before)
}

// udev is at work as long as a program of a rule of the site's is.
func TestAnEpilogWaitsForABusyUdevForHalfOfItsTime(t *testing.T) {
	vm.Needs(t, vm.Exclusive, vm.Short) // in shared mode it sees no event of its own that udev has not done
	vm.WithGPUs(t)
	before := vm.Picture(t)
	const (
		job  = "SLURM_JOB_ID=900043 SLURM_JOB_GPUS=0,1"
		rule = `ACTION=="add", KERNEL=="busy0", RUN+="/bin/sh -c 'echo $$$$ >/tmp/busy.pid; exec sleep 1000'"`
	)
	vm.WriteConfig(t, vm.Run(t, "cat /etc/gresnet/gresnet.toml")+fmt.Sprintf("[deadline]\nepilog = %q\n", vm.Slow(30*time.Second)))
	vm.Must(t, "prolog", job)
	vm.Run(t, "mkdir -p /run/udev/rules.d; echo "+vm.Quote(rule)+" >/run/udev/rules.d/99-busy.rules; udevadm control --reload; ip link add busy0 type dummy")
	vm.Eventually(t, "udev is busy", func() bool {
		_, err := os.Stat("/tmp/busy.pid")
		return err == nil
	})
	out, code := vm.ByHand(t, "epilog --trace", job)
	vm.Run(t, "kill $(cat /tmp/busy.pid); udevadm settle; ip link del busy0; rm /run/udev/rules.d/99-busy.rules /tmp/busy.pid; udevadm control --reload")
	if code != 0 || !strings.Contains(out, "udev is still busy after ") {
		t.Errorf("epilog while udev is busy: exit %d: %s", code, out)
	}
	vm.Same(t, before)
}

func TestAJournaldThatTakesNoLinesKeepsNoJobWaiting(t *testing.T) {
	vm.Needs(t, vm.Either, vm.Short)
	vm.WithGPUs(t)
	before := vm.Picture(t)
	stuckJournald(t)
	job := fmt.Sprintf("SLURM_JOB_ID=900001 SLURM_JOB_GPUS=0,1 timeout -s KILL %.0f", vm.Slow(100*time.Second).Seconds())
	if out, code := vm.ByHand(t, "prolog", job); code != 0 || out != "" {
		t.Errorf("prolog: exit %d: %s", code, out)
	}
	if vm.NoLease() {
		t.Error("the job has no lease")
	}
	if out, code := vm.ByHand(t, "epilog", job); code != 0 || out != "" {
		t.Errorf("epilog: exit %d: %s", code, out)
	}
	vm.Same(t, before)
}

// stuckJournald stands where journald would be if systemd were PID 1 here: its socket has
// no room for another line, and nobody reads.
func stuckJournald(t *testing.T) {
	t.Helper()
	const path = "/run/systemd/journal/socket"
	vm.Run(t, "mkdir -p "+filepath.Dir(path))
	journald, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journald.Close(); vm.Run(t, "rm -f "+path) })
	c, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for err == nil {
		if err = c.SetWriteDeadline(time.Now().Add(time.Second)); err == nil {
			_, err = c.Write([]byte("MESSAGE=a line that nobody reads\n"))
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("fill the journal's queue: %v", err)
	}
}
