package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gresnet/lib/hca/gres"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/opened"
	"gresnet/lib/state"
	"gresnet/lib/state/lock"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/job"
)

// TrialJob is the job for which gresnet try takes HCAs. Slurm never has it: a job's number within its
// cluster is in the lower 26 bits of the id and begins with 1 (slurm.h, MAX_JOB_ID; fed_mgr.h).
const TrialJob = 1 << 26

// Trial is a run of gresnet try on the node. While it lasts, nobody sweeps its lease.
type Trial struct {
	Cgroup string // that stands for the job's; empty: the node has no cgroup v2, and no guard

	held *lock.File
	made bool // this node had no state directory before the trial
}

// BeginTrial makes the state directory if there is none, keeps other trials away, and sets an RDMA netns mode if one is given.
func (n *Host) BeginTrial(ctx context.Context, mode rdma.Mode) (*Trial, error) {
	t := &Trial{made: !n.State.IsMade()}
	if err := n.State.Make(); err != nil {
		return nil, err
	}
	if t.made {
		// Another trial unmakes the directory if this one is killed.
		if err := os.WriteFile(n.madeByTrial(), nil, 0o600); err != nil {
			return nil, n.State.Fault(err)
		}
	} else if _, err := os.Lstat(n.madeByTrial()); err == nil && !n.isInUse() {
		t.made = true
	}
	held, err := n.lockTrial()
	if err != nil {
		return nil, err
	}
	t.held = held
	if n.Guard.Possible() == nil {
		t.Cgroup = n.trialCgroup()
		if err = os.Mkdir(t.Cgroup, 0o755); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err == nil && mode != "" {
		err = n.setTrialMode(ctx, mode)
	}
	if err == nil {
		err = n.readyTrial(ctx)
	}
	if err != nil {
		return nil, hint.Join(err, t.End(n))
	}
	return t, nil
}

// lockTrial keeps trials away, or fails at once if one runs.
func (n *Host) lockTrial() (*lock.File, error) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	held, err := lock.At(now, n.trialLock())
	if errors.Is(err, context.Canceled) {
		return nil, hint.With(errors.New("another gresnet try runs"), "GN630 wait until it has ended: fuser -v "+n.trialLock())
	}
	if err != nil {
		return nil, n.State.Fault(err)
	}
	return held, nil
}

// forgetTrial removes the cgroup of a trial that was killed, and gives the node its mode.
func (n *Host) forgetTrial(ctx context.Context) error {
	_, cgroup := os.Lstat(n.trialCgroup())
	_, mode := os.Lstat(n.modeBefore())
	if cgroup != nil && mode != nil {
		return nil
	}
	held, err := n.lockTrial()
	if err != nil {
		return nil // the trial that runs does it
	}
	_ = os.Remove(n.trialCgroup())
	if !n.remembers() { // else a later sweep resets it: the kernel changes no mode under a job
		err = n.resetMode(ctx)
	}
	return hint.Join(err, held.Close())
}

// modeBefore returns a link to the RDMA netns mode that the node had before a trial set another one.
func (n *Host) modeBefore() string { return filepath.Join(string(n.State), "trial-mode") }

// setTrialMode sets the node's RDMA netns mode, if no job holds an HCA, and notes the one that it had.
func (n *Host) setTrialMode(ctx context.Context, mode rdma.Mode) error {
	return n.afterEarlier(ctx, job.Job{ID: TrialJob}, func() error {
		if n.remembers() {
			return hint.With(fmt.Errorf("set the RDMA netns mode to %s: HCAs are in use", mode), "GN811 drain the node; gresnet status says who has them")
		}
		return n.setMode(ctx, mode, func(before rdma.Mode) error {
			if err := os.Symlink(string(before), n.modeBefore()); err != nil && !errors.Is(err, fs.ErrExist) {
				return n.State.Fault(err)
			}
			return nil // or a killed trial noted the node's own
		})
	})
}

// resetMode gives the node the mode that it had before a trial.
func (n *Host) resetMode(ctx context.Context) error {
	before, err := os.Readlink(n.modeBefore())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = n.setMode(ctx, rdma.Mode(before), func(rdma.Mode) error { return nil })
	}
	if err != nil {
		return opened.Remains(err)
	}
	return state.Remove(n.modeBefore())
}

// readyTrial closes device nodes as each prolog does, except where no prolog has ever run since the boot:
// there nobody has closed any, and the trial leaves those of other HCAs as they are.
func (n *Host) readyTrial(ctx context.Context) error {
	if err := n.State.Make(); err != nil {
		return err
	}
	if _, err := os.Lstat(n.madeByTrial()); err == nil && !n.isInUse() {
		n.Config.Access.Host = config.Open
	}
	if err := n.readTable(TrialJob); err != nil {
		return err
	}
	return n.Close(ctx)
}

func (n *Host) trialCgroup() string { return filepath.Join(n.Guard.Cgroup, "gresnet-try") }
func (n *Host) trialLock() string   { return filepath.Join(n.State.Locks(), "trial") }

// madeByTrial returns the sign that a trial has made the state directory.
func (n *Host) madeByTrial() string { return filepath.Join(string(n.State), "trial") }

// isInUse tells whether prologs have run here.
func (n *Host) isInUse() bool {
	_, err := os.Lstat(n.State.LastProlog())
	return err == nil
}

// End ends the trial. A node that had no state directory is as if it had none afterwards, unless prologs have
// run meanwhile or something remains to be done: the directory decides what later runs expect of jobs.
func (t *Trial) End(n *Host) error {
	err := n.resetMode(context.Background()) // also after Ctrl-C
	if err == nil && t.made && !n.isInUse() && !n.remembers() {
		if err = n.State.Unmake(); err == nil && !n.State.IsMade() {
			err = state.Remove(n.madeByTrial())
		}
	}
	if t.Cgroup != "" {
		_ = os.Remove(t.Cgroup) // nothing is in it any more; an empty one does no harm
	}
	return hint.Join(err, t.held.Close())
}

// remembers tells whether anything of an HCA or the node remains to be done. In doubt it does.
func (n *Host) remembers() bool {
	now, err := n.Table().Read()
	lost, unread := os.ReadDir(n.State.Lost())
	if err != nil || unread != nil && !errors.Is(unread, fs.ErrNotExist) {
		return true
	}
	return len(lost)+len(now.Claims)+len(now.Uplinks)+len(now.Forwarding)+len(now.Shared)+len(now.Unread) > 0
}

// TakeTrial takes HCAs for a trial, as Take does for a job. It asks no source, and leaves nothing for a job's
// steps. It fails where a prolog fails or refuses a job; then there is no lease, or the error is ErrRemains.
func (n *Host) TakeTrial(ctx context.Context, j job.Job, wants []gres.Want) error {
	if err := n.readyTrial(ctx); err != nil {
		return err
	}
	opened.RestoreLost(ctx, n.Host, false)
	n.Config.RDMA.Mode = "" // the trial's may be another
	return n.afterEarlier(ctx, j, func() error {
		_, err := n.takeOrWait(ctx, j, wants)
		return err
	})
}
