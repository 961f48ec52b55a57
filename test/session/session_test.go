// Package session runs the programs as a person or slurmd would: each file in
// testdata reads like a shell session. The kernel here need not have RDMA;
// what needs it is in test/guest.
package session

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"gresnet/lib/kernel/rdma"
	"gresnet/test/netnstest"
)

func TestSessions(t *testing.T) {
	if os.Geteuid() != 0 {
		netnstest.Skip(t, "needs root: the programs refuse anybody else")
	}
	bin := t.TempDir()
	for program, folder := range map[string]string{"gresnet": "prolog/gresnet", "gresnet-prolog": "prolog", "gresnet-epilog": "epilog"} {
		build := exec.Command("go", "build", "-o", filepath.Join(bin, program), "gresnet/"+folder)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		t.Logf("built %s", program) // else a slow machine's tests would seem to hang
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			// As slurmd has it: nothing but what it sets. PATH is for the sessions' own commands.
			e.Vars = []string{
				"PATH=" + bin + ":/usr/sbin:/usr/bin:/sbin:/bin",
				"WORK=" + e.WorkDir,
				"STATE=" + filepath.Join(e.WorkDir, "run"),
				"SLURM_JOB_UID=1000", "SLURM_JOB_GID=1000", "SLURM_JOB_USER=alice",
				"SLURMD_NODENAME=node1", "SLURM_CONF=/etc/slurm/slurm.conf",
				"SLURM_JOB_RESTART_COUNT=0", "SLURM_SCRIPT_CONTEXT=prolog_slurmd",
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "rdma" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			c, err := rdma.Dial()
			if err != nil {
				return false, nil
			}
			c.Close()
			return true, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":    exitCode,
			"oneline": oneLine,
		},
	})
}

// exitCode runs a command whose exit code is given first: code 1 gresnet-prolog …
func exitCode(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] || neg {
		ts.Fatalf("exit code %d, wanted %s", got, args[0])
	}
}

// oneLine holds stderr to the contract: one line that says what, and one hint.
func oneLine(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check(checkOneLine(ts.ReadFile("stderr")))
}

func checkOneLine(text string) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) == 2 && !strings.Contains(lines[0], ": hint: ") && strings.Contains(lines[1], ": hint: ") {
		return nil
	}
	return fmt.Errorf("stderr is not one line and its hint:\n%s", text)
}
