package proc_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"gresnet/lib/kernel/proc"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
)

func TestAProcessIsItsRealUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to be another user")
	}
	cmd := exec.Command("cat", "/proc/self/comm", "-")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1234, Gid: 1234}}
	standin.Start(t, cmd)
	for pid, want := range map[int]uint32{cmd.Process.Pid: 1234, os.Getpid(): 0} {
		if p, uid, err := proc.UserOf(pid); err != nil || uid != want || p.PID != pid || p.Name == "" {
			t.Errorf("process %d is %s of %d, %v, wanted %d", pid, p, uid, err, want)
		}
	}
	if _, _, err := proc.UserOf(1 << 22); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that is not there: %v", err)
	}
}

// A test binary is also a program that becomes root.
func init() {
	if os.Getenv("GRESNET_BECOME") == "" {
		return
	}
	if err := syscall.Setresuid(0, 0, 0); err != nil {
		panic(err)
	}
	os.Stdout.WriteString("\n")
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// Who runs a program that becomes root, as sudo does before it asks for a password, has not become root.
func TestAProcessThatBecameRootIsItsUsersAndNoStepWhateverItsTitle(t *testing.T) {
	const job = 4294000021
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to be another user")
	}
	dir, err := os.MkdirTemp("", "proctest") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "becomes")
	copyFile(t, "/proc/self/exe", program)
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(program, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	for by, want := range map[uint32]uint32{1234: 1234, 0: 0} {
		cmd := exec.Command(program)
		cmd.Args = []string{fmt.Sprintf("slurmstepd: [%d.extern]", uint32(job))}
		cmd.Env = []string{"GRESNET_BECOME=root"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: by, Gid: 1234}}
		standin.Start(t, cmd)
		if _, uid, err := proc.UserOf(cmd.Process.Pid); err != nil || uid != want {
			t.Errorf("what user %d runs is of user %d, %v", by, uid, err)
		}
		if steps, err := proc.Steps(job); err != nil || slices.Contains(pids(steps), cmd.Process.Pid) != (by == 0) {
			t.Errorf("of what user %d runs these are steps: %v, %v", by, steps, err)
		}
	}
}
