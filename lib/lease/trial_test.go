package lease

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/opened"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
	"gresnet/lib/words/config"
	"gresnet/lib/words/job"
	"gresnet/lib/words/node"
)

func trialNode(t *testing.T) *Host {
	t.Helper()
	n := On(&host.Host{
		State: state.Dir(filepath.Join(t.TempDir(), "gresnet")), Dev: t.TempDir(), Sys: fstest.MapFS{}, Proc: fstest.MapFS{},
		Log: func(event.Event) {}, Config: config.Default(), Now: time.Now,
	})
	n.Undo = time.Minute
	return n
}

// leave has a trial leave a lease that counts.
func leave(t *testing.T, n *Host) {
	t.Helper()
	l, err := opened.Create(t.Context(), n.Host, job.Job{ID: TrialJob})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	touch(t, n.State.Lease(TrialJob).Env())
}

func TestATrialsLeaseAndCgroupAreSparedWhileTheTrialRunsAndSweptAfterIt(t *testing.T) {
	n := trialNode(t)
	n.Guard.Cgroup = t.TempDir()
	if err := os.Mkdir(n.trialCgroup(), 0o755); err != nil {
		t.Fatal(err)
	}
	has := func(path string) bool {
		_, err := os.Lstat(path)
		return err == nil
	}
	trial, err := n.BeginTrial(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	leave(t, n)
	if _, err := n.BeginTrial(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "another gresnet try runs") {
		t.Errorf("a second trial: %v", err)
	}
	for _, s := range []Sweep{{}, {Boot: true}, {Jobs: []uint32{TrialJob}}} {
		if err := n.Sweep(t.Context(), s); (err != nil) != (s.Jobs != nil) || s.Jobs != nil && !errors.Is(err, errLives) {
			t.Errorf("sweep %+v: %v", s, err)
		}
		if !n.State.Lease(TrialJob).Exists() || !has(n.trialCgroup()) {
			t.Fatalf("sweep %+v took the lease or the cgroup of a trial that runs", s)
		}
	}
	trial.held.Close() // as if it were killed
	if err := n.Sweep(t.Context(), Sweep{}); err != nil || n.State.Lease(TrialJob).Exists() || has(n.trialCgroup()) {
		t.Errorf("after the trial: %v, the lease is there: %t, the cgroup: %t", err, n.State.Lease(TrialJob).Exists(), has(n.trialCgroup()))
	}
}

func TestATrialLeavesNoStateDirectoryWhereThereWasNone(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(*Host)
		during func(*Host)
		left   bool
	}{
		{"nothing has run here", func(*Host) {}, func(*Host) {}, false},
		{"an earlier trial was killed", func(n *Host) {
			trial, err := n.BeginTrial(context.Background(), "")
			if err != nil {
				t.Fatal(err)
			}
			trial.held.Close()
		}, func(*Host) {}, false},
		{"there is one", func(n *Host) {
			if err := n.State.Make(); err != nil {
				t.Fatal(err)
			}
		}, func(*Host) {}, true},
		{"a lease is left", func(*Host) {}, func(n *Host) { leave(t, n) }, true},
		{"a lease is left whose HCA did not come home", func(*Host) {}, func(n *Host) {
			if err := os.MkdirAll(filepath.Join(n.State.Lost(), "job-67108864-1"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"an HCA is in quarantine", func(*Host) {}, func(n *Host) {
			err := n.Table().Update(t.Context(), func(now *table.Table) error {
				now.Claims = append(now.Claims, table.Claim{HCA: node.ID{GUID: "0002:c903:00ab:0001"}, Name: "mlx5_0", Quarantined: "it hangs"})
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a prolog has run meanwhile", func(*Host) {}, func(n *Host) {
			if err := n.State.MakeSigns(); err != nil {
				t.Fatal(err)
			}
			touch(t, n.State.LastProlog())
		}, true},
	} {
		n := trialNode(t)
		c.before(n)
		trial, err := n.BeginTrial(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		c.during(n)
		if err := trial.End(n); err != nil || n.State.IsMade() != c.left {
			t.Errorf("%s: there is a state directory: %t: %v", c.name, n.State.IsMade(), err)
		}
		if _, err := os.Lstat(n.trialLock()); err != nil {
			t.Errorf("%s: a lock was removed: %v", c.name, err)
		}
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
