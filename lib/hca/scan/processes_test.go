package scan

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"gresnet/lib/kernel/rdma"
	"gresnet/test/netnstest"
	"gresnet/test/standin"
)

// runs starts a program of a user, which runs until the test ends.
func runs(t *testing.T, uid uint32) rdma.Holder {
	t.Helper()
	cmd := exec.Command("cat", "/proc/self/comm", "-")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	standin.Start(t, cmd)
	return rdma.Holder{PID: uint32(cmd.Process.Pid)}
}

func TestUsersOfAnHCAAreUsersProcessesAndThoseThatTheKernelNamesNoMore(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root to be another user")
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	user, root, kernel := runs(t, 65534), rdma.Holder{PID: uint32(os.Getpid())}, rdma.Holder{Kernel: "ib_core"}
	gone := rdma.Holder{PID: uint32(dead.Process.Pid)}
	named := fmt.Sprintf("cat (pid %d) of user 65534", user.PID)
	for _, c := range []struct {
		what    string
		holders []rdma.Holder
		by      string
		ended   bool
	}{
		{"nobody", nil, "", false},
		{"root and the kernel", []rdma.Holder{root, kernel}, "", false},
		{"a user", []rdma.Holder{root, user}, named, false},
		{"a process that the kernel names no more", []rdma.Holder{root, {}}, handedOn, false},
		{"that and a user", []rdma.Holder{{}, user}, named, false},
		{"a process that has ended since", []rdma.Holder{gone}, "", true},
		{"many", []rdma.Holder{user, user, user, user, user}, strings.Join([]string{named, named, named}, ", ") + " and others", false},
	} {
		if by, ended := userOf(c.holders); by != c.by || ended != c.ended {
			t.Errorf("%s: used by %q, ended %t, wanted %q, %t", c.what, by, ended, c.by, c.ended)
		}
	}
}
