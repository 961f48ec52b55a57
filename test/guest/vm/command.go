package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gresnet/test/await"
)

// Main is what each folder's TestMain calls. A test binary is also a program that tests
// run inside a job or on the other node.
func Main(m *testing.M) {
	if what := os.Getenv("GRESNET_PROBE"); what != "" {
		os.Exit(probe(what))
	}
	if os.Getenv("GRESNET_PICTURE") != "" {
		os.Exit(printPicture())
	}
	os.Exit(m.Run())
}

// Repo returns the top folder of the work tree, which the VM has at the host's path.
func Repo() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "../../..")
}

// Run runs a shell command on the node and returns what it prints to stdout.
func Run(t *testing.T, command string) string {
	t.Helper()
	out, err := Try(command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return out
}

// Try is run for a command that may fail: it returns both outputs together then. A command that does not end
// fails.
func Try(command string) (string, error) { return tryFor(Slow(5*time.Minute), command) }

func tryFor(most time.Duration, command string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, "bash", "-ec", "set -o pipefail\n"+command)
	cmd.Stdout, cmd.Stderr = &out, &problems
	cmd.WaitDelay = most // for what the command has left, and keeps its outputs open
	cmd.Dir = "/"
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("after %s it has not ended", most)
	}
	if err != nil {
		return out.String() + problems.String(), err
	}
	return out.String(), nil
}

// As runs a shell command as an ordinary user with a login's environment.
func As(t *testing.T, user, command string) string {
	t.Helper()
	out, err := TryAs(user, command)
	if err != nil {
		t.Fatalf("as %s: %s: %v\n%s", user, command, err, out)
	}
	return out
}

func TryAs(user, command string) (string, error) {
	return Try("cd /tmp; exec setpriv --reuid " + user + " --regid " + user + " --init-groups env HOME=/tmp USER=" + user + " bash -ec " + Quote(command))
}

func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Eventually waits until a condition holds. How long depends on how slow the VM is: the
// bound is there for what never comes.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	patience := Slow(2 * time.Minute)
	for end := time.Now().Add(patience); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %s still not: %s\n%s", patience, what, SlurmState())
		}
	}
}

// Slow returns a time that is enough on a usual machine, made longer by how slow this VM is,
// which test/vm/guest-init has measured.
func Slow(usual time.Duration) time.Duration { return await.Slow(usual) }

// Timeout is the command that ends another one which has not ended in a minute, or more
// where the VM is slow.
var Timeout = fmt.Sprintf("timeout %.0f ", Slow(time.Minute).Seconds())

// SlurmState returns what a person would look at, and what tells the most comes last.
func SlurmState() string {
	out, err := Try("set +e; tail -n 30 /var/log/slurmd.log; head -v -n 4 /run/gresnet/jobs/*/env /run/gresnet/notices/*; squeue -a; sinfo -R; scontrol show node | grep -E 'State|Reason'; grep -h 'gresnet-' /var/log/slurmd.log | tail -n 20")
	return fmt.Sprintln(out, err)
}

// Mode returns the node's RDMA netns mode, as iproute2 says it.
func Mode(t *testing.T) string {
	t.Helper()
	if strings.Contains(Run(t, "rdma system"), "exclusive") {
		return "exclusive"
	}
	return "shared"
}

// MaxRSS runs a program as slurmd would and returns its peak memory in KiB.
func MaxRSS(t *testing.T, program, job string) int64 {
	t.Helper()
	cmd := exec.Command(Repo() + "/bin/gresnet-" + program)
	cmd.Env = strings.Fields(strings.TrimPrefix(SlurmdEnv, "env -i ") + job)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
}

// Command runs a command of the prolog or the epilog as an administrator does.
func Command(t *testing.T, line string) (string, int) {
	t.Helper()
	out, _ := Try("rc=0; " + Repo() + "/bin/" + line + " 2>&1 || rc=$?; echo \"exit $rc\"")
	text, code, ok := strings.Cut(out, "exit ")
	if !ok {
		t.Fatalf("%s: %s", line, out)
	}
	return text, int(code[0] - '0')
}

// InNamespace returns a process that is in a network namespace until its stdin ends.
func InNamespace(path string) *exec.Cmd {
	return exec.Command("nsenter", "--net="+path, "cat", "/proc/self/comm", "-")
}
