package source_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/hca/source"
)

// ctl returns a program in scontrol's place: what it shows of the node, and what it does to update it.
func ctl(t *testing.T, state, update string) (program string, updates func() string) {
	t.Helper()
	dir := t.TempDir()
	program, log := filepath.Join(dir, "scontrol"), filepath.Join(dir, "log")
	text := "#!/bin/sh\ncase $1 in\nshow) echo 'NodeName=n7 Arch=x86_64 State=" + state + " Reason=x';;\nupdate) " + update +
		"\nfor a; do echo \"[$a]\"; done >>" + log + ";;\nesac\n"
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return program, func() string {
		text, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return string(text)
	}
}

func drain(t *testing.T, program string, cause error) error {
	t.Helper()
	return source.Drain(context.Background(), config.Slurm{Scontrol: program, DrainReason: true}, job.Job{Node: "n7"}, cause)
}

func TestANodeIsDrainedWithOneLineThatFitsOnIt(t *testing.T) {
	long := "[gresnet: " + strings.Repeat("a", 188) + "...]\n"
	// sinfo -R cuts off the end.
	for cause, want := range map[error]string{
		errors.New("move mlx5_3: device busy"):                          "[gresnet: move mlx5_3: device busy]\n",
		hint.With(errors.New("move mlx5_3: device busy"), "GN777 wait"): "[gresnet: GN777: move mlx5_3: device busy]\n",
		errors.New("it says \"a\"\n$(reboot); \x1b[2J…"):                "[gresnet: it says 'a' $(reboot);  [2J ]\n",
		errors.New(strings.Repeat("a", 1000)):                           long,
	} {
		program, updates := ctl(t, "MIXED", "")
		if err := drain(t, program, cause); err != nil {
			t.Fatal(err)
		}
		if got := updates(); got != "[update]\n[nodename=n7]\n[state=drain]\n"+strings.Replace(want, "[", "[reason=", 1) {
			t.Errorf("%q: got %s", cause, got)
		}
	}
}

func TestTheReasonOfOneWhoHasDrainedTheNodeStays(t *testing.T) {
	for state, stays := range map[string]bool{
		"IDLE+DRAIN": true, "DOWN*": true, "DRAINING": true, "MIXED+DRAIN*": true, "FAILING": true,
		"IDLE": false, "ALLOCATED": false, "MIXED+CLOUD": false,
	} {
		program, updates := ctl(t, state, "")
		if err := drain(t, program, errors.New("it hangs")); err != nil {
			t.Fatal(err)
		}
		if (updates() == "") != stays {
			t.Errorf("%s: got %q", state, updates())
		}
	}
}

func TestASlurmctldThatDoesNotAnswerHoldsUpNoPrologForLong(t *testing.T) {
	program, _ := ctl(t, "IDLE", "sleep 3600")
	begun := time.Now()
	err := drain(t, program, errors.New("it hangs"))
	if err == nil || !strings.Contains(err.Error(), "no answer in time") {
		t.Errorf("got %v after %s", err, time.Since(begun))
	}
}
