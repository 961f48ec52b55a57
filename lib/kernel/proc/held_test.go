package proc_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gresnet/lib/kernel/detach"
	"gresnet/lib/kernel/proc"
	"gresnet/test/fusetest"
)

func TestStepsAreFoundBesideAProcessWhoseTitleCannotBeRead(t *testing.T) {
	for name, uid := range map[string]uint32{"a user's": 65534, "root's": 0} {
		t.Run(name, func(t *testing.T) {
			fusetest.Hold(t, "/proc/self/exe", uid)
			const job = 4294000003
			pid := start(t, "bash", "-c", `exec -a "slurmstepd: [`+fmt.Sprint(uint32(job))+`.extern]" cat /proc/self/comm -`)
			if steps, err := proc.Steps(job); err != nil || !slices.Equal(pids(steps), []int{pid}) {
				t.Errorf("steps are %v, %v, wanted pid %d", steps, err, pid)
			}
			if steps, err := proc.Steps(job + 1); err != nil || len(steps) != 0 {
				t.Errorf("steps of another job: %v, %v", steps, err)
			}
		})
	}
}

// Of whom nobody can say whose step he is may be any job's.
func TestASlurmstepdWhoseTitleCannotBeReadIsAnError(t *testing.T) {
	program := filepath.Join(t.TempDir(), "slurmstepd")
	copyFile(t, "/proc/self/exe", program)
	fusetest.Hold(t, program, 0)
	if steps, err := proc.Steps(4294000005); !errors.Is(err, detach.ErrHeldUp) {
		t.Errorf("steps are %v, %v", steps, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
