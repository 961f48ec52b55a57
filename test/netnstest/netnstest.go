// Package netnstest gives a test network namespaces of its own on the kernel
// that it runs on. It is for tests only.
package netnstest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gresnet/lib/kernel/netns"
	"gresnet/test/await"
)

// New makes a namespace with its loopback interface up, which goes with the
// test. Without the right to make one the test is skipped, and fails in CI.
func New(t testing.TB) *NS {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "needs root to make network namespaces")
	}
	path := filepath.Join(t.TempDir(), "netns")
	ns, err := netns.Create(path)
	if err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() {
		ns.Close()
		// Lazily: another test may look at all namespaces, and has it open for a moment.
		if out, err := exec.Command("umount", "-l", path).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", path, err, out)
		}
	})
	n := &NS{NS: ns, Path: path, t: t}
	n.IP("link set lo up")
	return n
}

// NS is a test's namespace.
type NS struct {
	*netns.NS
	Path string
	t    testing.TB
}

// IP runs `ip` in the namespace and returns what it prints.
func (n *NS) IP(args string) string {
	n.t.Helper()
	return n.Run("ip " + args)
}

// Run runs a shell command in the namespace, with a /sys of its own, and
// returns what it prints; a failure ends the test, and so does a command that does
// not end. What it complains of may be about others' namespaces, so only a failure
// tells it.
func (n *NS) Run(command string) string {
	n.t.Helper()
	most := await.Most(n.t)
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--net="+n.Path, "unshare", "-m", "sh", "-ec", "mount -t sysfs sysfs /sys\n"+command)
	cmd.WaitDelay = most // for what the command has left, and keeps its output open
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if ctx.Err() != nil {
		n.t.Fatalf("after %s still not at its end: %s\n%s%s", most.Round(time.Second), command, out, &complaints)
	}
	if err != nil {
		n.t.Fatalf("%s: %v\n%s%s", command, err, out, &complaints)
	}
	return string(out)
}

// Skip skips a test with a sentence. Under CI, where everything that tests
// need is installed, it fails it: a test that nobody runs proves nothing.
func Skip(t testing.TB, sentence string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("a test may not be skipped in CI: it %s", sentence)
	}
	t.Skip(sentence)
}

// RootsFolder returns a folder that root alone can write, as are all above it: one below /tmp is not.
func RootsFolder(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "needs root: only root's files are trusted")
	}
	dir, err := os.MkdirTemp("/var/lib", "gresnet-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Slow skips a test that takes seconds for go test -short. `make test` leaves the tests whose first statement this is to
// what CI runs after it.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes seconds")
	}
}

// otherOrder shows where two texts of the same lines differ.
func otherOrder(before, after []string) string {
	first, last := 0, len(before)
	for before[first] == after[first] {
		first++
	}
	for before[last-1] == after[last-1] {
		last--
	}
	return fmt.Sprintf("the same lines in another order:\n- %s\n+ %s\n", strings.Join(before[first:last], "\n- "), strings.Join(after[first:last], "\n+ "))
}

// Diff shows the lines in which two texts differ, "" if they do not.
func Diff(before, after string) string {
	if before == after {
		return ""
	}
	count := map[string]int{}
	for _, l := range strings.Split(before, "\n") {
		count[l]++
	}
	for _, l := range strings.Split(after, "\n") {
		count[l]--
	}
	var b strings.Builder
	for _, l := range strings.Split(before, "\n") {
		if count[l] > 0 {
			fmt.Fprintf(&b, "- %s\n", l)
			count[l]--
		}
	}
	for _, l := range strings.Split(after, "\n") {
		if count[l] < 0 {
			fmt.Fprintf(&b, "+ %s\n", l)
			count[l]++
		}
	}
	if b.Len() == 0 {
		return otherOrder(strings.Split(before, "\n"), strings.Split(after, "\n"))
	}
	return b.String()
}
