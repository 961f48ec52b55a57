// Package standin runs processes that stand in for a job's: a task in its
// namespace, a slurmstepd, an epilog that holds its lock. It is for tests only.
package standin

import (
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"

	"gresnet/test/await"
)

// Start starts a command, which says a line when it is what it is to be, and
// ends when its stdin does: when end is called, or the test is over. So does
// `cat /proc/self/comm -`; what a shell says before it executes another program
// comes too early.
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
		late := time.AfterFunc(await.Most(t), func() {
			t.Errorf("%s does not end with its stdin", cmd)
			cmd.Process.Kill()
		})
		in.Close()
		cmd.Wait()
		late.Stop()
	})
	t.Cleanup(end)
	said := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(out, make([]byte, 1))
		said <- err
	}()
	if err := await.Value(t, cmd.String()+" has said a line", said); err != nil {
		t.Fatalf("%s says nothing: %v", cmd, err)
	}
	return end
}
