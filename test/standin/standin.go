// Package standin runs processes that stand in for a job's: a task in its
// namespace, a slurmstepd, an epilog that holds its lock. It is for tests only.
package standin

import (
	"os/exec"
	"sync"
	"testing"
)

// Start starts a command, which says a line when it is what it is to be, and
// ends when its stdin does: when end is called, or the test is over.
func Start(t testing.TB, cmd *exec.Cmd) (end func()) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		in.Close()
		cmd.Wait()
	})
	t.Cleanup(end)
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return end
}
