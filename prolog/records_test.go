package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"gresnet/lib/admin/cli"
	"gresnet/lib/base/job"
	"gresnet/lib/state"
	"gresnet/test/netnstest"
)

// asProlog has this test's program be gresnet-prolog.
const asProlog = "GRESNET_TEST_PROLOG"

func TestMain(m *testing.M) {
	if os.Getenv(asProlog) != "" {
		os.Exit(run(cli.Outside()))
	}
	os.Exit(m.Run())
}

// changes are the system calls by which a program changes what there is of files.
var changes = []uint64{unix.SYS_MKDIRAT, unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT,
	unix.SYS_UTIMENSAT, unix.SYS_OPENAT, unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_FCHMOD, unix.SYS_FCHMODAT}

// entered returns the system call that a stopped thread is about to make.
func entered(t *testing.T, thread int) (call uint64, is bool) {
	t.Helper()
	const getSyscallInfo, entry = 0x420e, 1 // ptrace(2)
	var info [88]byte
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, getSyscallInfo, uintptr(thread), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0); errno != 0 {
		return 0, false // it was killed meanwhile
	}
	call = binary.NativeEndian.Uint64(info[24:])
	if flags := binary.NativeEndian.Uint64(info[48:]); call == unix.SYS_OPENAT && flags&(unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT) == 0 {
		return 0, false // it only reads
	}
	return call, info[0] == entry
}

// killedAt runs a program and kills it, with all its processes, before its n-th change of files. It
// returns false if the program ends before, and how.
func killedAt(t *testing.T, cmd *exec.Cmd, n int) (killed bool, exit int) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := cmd.Process.Pid
	group := func() { _ = syscall.Kill(-first, syscall.SIGKILL) }
	defer group()
	living, made, ready := map[int]bool{first: true}, 0, false
	for len(living) > 0 {
		var status syscall.WaitStatus
		thread, err := syscall.Wait4(-1, &status, syscall.WALL, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			t.Fatalf("wait: %v", err)
		}
		living[thread] = true
		pass := 0
		switch {
		case status.Exited() || status.Signaled():
			delete(living, thread)
			if thread == first {
				exit = status.ExitStatus()
			}
			continue
		case !ready:
			ready = true
			if err := syscall.PtraceSetOptions(thread, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACEFORK|unix.PTRACE_O_TRACEVFORK|unix.PTRACE_O_EXITKILL); err != nil {
				t.Fatal(err)
			}
		case status.StopSignal() == syscall.SIGTRAP|0x80:
			if call, is := entered(t, thread); is && slices.Contains(changes, call) {
				if made++; made == n && !killed {
					killed = true
					group()
				}
			}
		case status.StopSignal() != syscall.SIGTRAP && status.StopSignal() != syscall.SIGSTOP:
			pass = int(status.StopSignal())
		}
		_ = syscall.PtraceSyscall(thread, pass) // it may have been killed
	}
	_ = cmd.Wait()
	return killed, exit
}

// prologOf returns a prolog of a job that asks for no HCA.
func prologOf(t *testing.T, d state.Dir, toml string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gresnet.toml")
	if err := os.WriteFile(file, []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "--state", string(d), "--config", file)
	cmd.Env = []string{asProlog + "=1", "SLURM_JOB_ID=4711", "SLURM_JOB_UID=1000", "SLURM_JOB_GID=1000", "SLURM_JOB_USER=alice", "SLURMD_NODENAME=n1",
		fmt.Sprintf("SLURM_JOB_START_TIME=%d", time.Now().Add(-time.Minute).Unix())}
	return cmd
}

// filesOf returns all files of a folder that are not folders.
func filesOf(t *testing.T, folder string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all = append(all, strings.TrimPrefix(name, folder+"/"))
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

func TestAPrologThatIsKilledAtAnyChangeLeavesNoRecordOfSuccessAndItsJobIsExpectedToHaveOne(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: it runs the prolog")
	}
	const good, bad = "[slurm]\nsource = [\"gpu\"]\n[access]\nhost = \"open\"\n", "[slurm]\nno_such_key = 1\n"
	earlier := job.Run{Restart: 7}
	for name, c := range map[string]struct {
		toml   string
		exit   int
		before func(t *testing.T, d state.Dir)
		fresh  bool
	}{
		"the first since the boot": {good, 0, func(*testing.T, state.Dir) {}, true},
		"one of many": {good, 0, func(t *testing.T, d state.Dir) {
			if err := errors.Join(d.Expect([]string{"nic"}, time.Unix(1, 0)), d.EndProlog(state.Record{Job: 4710})); err != nil {
				t.Fatal(err)
			}
		}, false},
		"one that fails": {bad, 1, func(t *testing.T, d state.Dir) {
			if err := d.Expect([]string{"nic"}, time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}, false},
		"one of a job that ran here before": {good, 0, func(t *testing.T, d state.Dir) {
			if err := errors.Join(d.Expect([]string{"nic"}, time.Unix(1, 0)), d.EndProlog(state.Record{Job: 4711, Run: earlier})); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for n, killed := 1, true; killed; n++ {
				d := state.Dir(filepath.Join(t.TempDir(), "run"))
				c.before(t, d)
				var exit int
				killed, exit = killedAt(t, prologOf(t, d, c.toml), n)
				s := d.ReadRecord(4711)
				switch {
				case !killed && (exit != c.exit || s == nil || s.Exit != c.exit):
					t.Fatalf("it ended with %d and left %+v", exit, s)
				case s != nil && (s.Exit != c.exit || s.Run == earlier && n > 1): // it removes an earlier run's before all else
					t.Fatalf("killed at %d: it left %s", n, s)
				}
				files := filesOf(t, string(d))
				info, err := os.Lstat(d.Expected())
				if err != nil && len(slices.DeleteFunc(files, func(f string) bool { return f == "runs/expected.new" })) > 0 {
					t.Fatalf("killed at %d: it left %q and no list of who is to leave a record: %v", n, files, err)
				}
				if err == nil && info.ModTime().After(time.Now().Add(-time.Minute)) {
					t.Fatalf("killed at %d: its own job is not expected to have left a record: since %v", n, info.ModTime())
				}
				if err != nil && !c.fresh {
					t.Fatalf("killed at %d: no job is expected to leave a record any more: %v", n, err)
				}
				if !killed {
					t.Logf("killed before each of %d changes", n-1)
				}
			}
		})
	}
}

func TestAPrologOfAJobThatAsksForNothingWaitsForNoLockOfItsJob(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: it runs the prolog")
	}
	d := state.Dir(filepath.Join(t.TempDir(), "run"))
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	held, err := state.LockJob(t.Context(), d.Locks(), 4711)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	const asksGPUs = "[slurm]\nsource = [\"gpu\"]\n[access]\nhost = \"open\"\n"
	if out, err := prologOf(t, d, asksGPUs+"[deadline]\nprolog = \"1h\"\n").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	// What an earlier run has left is looked after under the lock.
	if err := os.MkdirAll(d.Notices(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.Notice(4711), []byte("it had fewer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := prologOf(t, d, asksGPUs+"[deadline]\nprolog = \"10s\"\n").CombinedOutput(); err == nil || !strings.Contains(string(out), "lock job 4711") {
		t.Errorf("%v: %s", err, out)
	}
}

// setup --undo has taken the plugin's line, and slurmd calls the prolog until it is restarted: a lease would take HCAs away
// from steps that run on the node.
func TestAPrologThatSlurmdCallsAfterAnUndoTakesNoLease(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: it runs the prolog")
	}
	slurmd := filepath.Join(t.TempDir(), "slurmd")
	shell, err := os.ReadFile("/bin/sh")
	if err == nil {
		err = os.WriteFile(slurmd, shell, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	const refuses = "[slurm]\nsource = [\"policy\"]\n[access]\nhost = \"open\"\n[[policy]]\npartition = \"another\"\ncount = 1\n"
	for _, undone := range []bool{false, true} {
		d := state.Dir(filepath.Join(t.TempDir(), "run"))
		if err := d.Make(); err != nil {
			t.Fatal(err)
		}
		if undone {
			if err := os.WriteFile(d.Undone(), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		direct := prologOf(t, d, refuses)
		cmd := exec.Command(slurmd, append([]string{"-c", fmt.Sprintf(`/proc/%d/exe "$@"; exit $?`, os.Getpid()), "slurmd"}, direct.Args[1:]...)...)
		cmd.Env = direct.Env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if has := d.Lease(4711).Exists(); has == undone {
			t.Errorf("undone: %v, and there is a lease: %v", undone, has)
		}
	}
}
