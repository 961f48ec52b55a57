package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gresnet/lib/config"
	"gresnet/lib/event"
	"gresnet/lib/gres"
	"gresnet/lib/host"
	"gresnet/lib/job"
	"gresnet/lib/plan"
	"gresnet/lib/source"
	"gresnet/lib/step"
	"gresnet/lib/uplink"
	"gresnet/lib/world"
)

// Take gives a job the HCAs that it is entitled to. A job that is entitled to
// none gets no lease. A lease that this run of the job has already is left as
// it is; one of an earlier run is unwound first. What the job asked wrongly
// becomes a refused lease, which its steps fail with, and no error.
//
// After an error the node is as it was; if not, the error is ErrRemains.
func (n *Host) Take(ctx context.Context, j job.Job) error {
	looked := n.Stopwatch()
	if err := n.ready(ctx); err != nil {
		return err
	}
	// Whatever this job gets, it is not to open what it does not get.
	if err := n.Close(); err != nil {
		return err
	}
	looked.Stop("look after the node table and who can open device nodes")
	return n.underLock(ctx, j.ID, func() error {
		done, err := n.existingLease(ctx, j)
		if done || err != nil {
			return err
		}
		n.removeNotice(j.ID) // what an earlier run was told
		return n.takeEntitled(ctx, j)
	})
}

// takeEntitled asks what a job is entitled to, and takes it. The job is told what it lacks.
func (n *Host) takeEntitled(ctx context.Context, j job.Job) error {
	wants, less, err := n.ask(ctx, j)
	if err == nil && len(wants) > 0 {
		var passed []gres.Holding
		passed, err = n.takeWanted(ctx, j, wants)
		less = append(less, passedOver(passed)...)
	}
	var refusal *gres.Refusal
	if errors.As(err, &refusal) && !errors.Is(err, ErrRemains) {
		return n.refuse(ctx, j, refusal)
	}
	if err == nil {
		n.writeNotice(j, less)
	}
	return err
}

// ask asks the sources what a job is entitled to. less is why that is less than the job could
// expect.
func (n *Host) ask(ctx context.Context, j job.Job) (wants []gres.Want, less []string, err error) {
	asked := n.Stopwatch()
	local := n.Local(func() (gres.Mapping, error) { return n.pin(ctx, n.Mapped) })
	local.Less = func(why string) { less = append(less, why) }
	wants, notes, err := source.Ask(ctx, j, n.Config, local)
	asked.Stop("ask what the job is entitled to")
	for _, note := range notes {
		n.Notice(j.ID, "%s", note)
	}
	return wants, less, err
}

// takeWanted takes what a job is entitled to. passed is what it would have besides, had that
// been free.
func (n *Host) takeWanted(ctx context.Context, j job.Job, wants []gres.Want) (passed []gres.Holding, err error) {
	// A lease that somebody removed left its claims, and a job must not wait for itself.
	if err := n.abandoned(ctx, j.ID); err != nil {
		return nil, remains(err)
	}
	if err := n.reclaim(ctx, j, wants); err != nil {
		return nil, err
	}
	return n.takeFree(ctx, j, wants)
}

// existingLease deals with a lease that is there already, and tells whether it is this run's own.
func (n *Host) existingLease(ctx context.Context, j job.Job) (done bool, err error) {
	l, err := n.resume(ctx, j.ID)
	if errors.Is(err, errNoLease) {
		if err := removeDir(n.Dir(j.ID)); err != nil {
			return false, remains(err)
		}
		return false, nil
	}
	if err != nil {
		return false, remains(err)
	}
	defer l.close()
	if l.complete() && l.world.Run == j.Run.String() {
		n.Notice(j.ID, "the lease is there already")
		return true, nil
	}
	n.Notice(j.ID, "unwinding what run %s left", l.world.Run)
	return false, l.unwind()
}

// take is also what the job does without: it would have had that, had it been free.
func (n *Host) take(ctx context.Context, j job.Job, wants []gres.Want) (passed []gres.Holding, err error) {
	l, err := n.create(ctx, j)
	if err != nil {
		return nil, err
	}
	defer l.close()
	defer func() {
		if err != nil {
			err = l.failed(err)
		}
	}()

	access := n.Access(j)
	pool, err := l.look().PoolFor(access)
	if err != nil {
		return nil, err
	}
	p, claim, err := l.claim(ctx, j, wants, pool)
	if err != nil {
		return nil, err
	}
	if len(p.Entries) == 0 {
		return p.Passed, l.unwind() // what the job would have had, if it were free, is not
	}
	return p.Passed, l.fill(ctx, j, access, p, pool, claim)
}

// fill moves what is claimed into the lease, and makes the lease count.
func (l *open) fill(ctx context.Context, j job.Job, access config.Access, p host.Picked, pool *uplink.Pool, claim *step.Claim) error {
	n := l.node
	looked := n.Stopwatch()
	mode, hcas, err := l.look().Read(j, access, p)
	looked.Stop("read what the moves lose")
	if err != nil {
		return err
	}
	n.checkMode(j.ID, mode)
	found := n.Stopwatch()
	network, err := l.look().Network(ctx, j, access, n.CanMove)
	found.Stop("find the job's other nodes")
	if err != nil {
		return err
	}
	up := plan.Uplink(pool, claim.Uplink, j.UID, claim.Forwarding)
	l.letIn(up, j)
	if err := l.apart(up, network, interfaces(hcas)); err != nil {
		return err
	}
	over := plan.Overlay(network, n.Config.Overlay, up)
	if err := l.carryOut(ctx, plan.Take(j, mode, access, up, over, hcas)); err != nil {
		return err
	}
	told := n.Stopwatch()
	if err := l.commit(j, access, mode, connections{l.had(up, claim.Uplink), network, over.Srun() && !j.Part}, hcas); err != nil {
		return err
	}
	told.Stop("tell the job of it, commit")
	n.Tell(event.LeaseTaken, j.ID, "the lease is taken, in %s mode: %s", mode, namesOf(hcas))
	return nil
}

// claim takes HCAs, and an address if the job has an uplink, in the node table.
func (l *open) claim(ctx context.Context, j job.Job, wants []gres.Want, pool *uplink.Pool) (p host.Picked, claim *step.Claim, err error) {
	claim = new(step.Claim)
	err = l.timed(do, claim, func(*world.World) (err error) {
		p, err = l.claimLocked(ctx, j, wants, pool, claim)
		return err
	})
	return p, claim, err
}

// claimLocked decides what is claimed, notes it in the journal and writes it into the node
// table, in this order, under the node lock.
func (l *open) claimLocked(ctx context.Context, j job.Job, wants []gres.Want, pool *uplink.Pool, claim *step.Claim) (host.Picked, error) {
	change, err := l.world.Table.Begin(ctx)
	if err != nil {
		return host.Picked{}, err
	}
	defer change.Close()
	t := &change.Table
	p, err := l.node.Pick(t, j, wants)
	if err != nil {
		return host.Picked{}, err
	}
	if len(p.Entries) > 0 {
		if err := l.claimUplink(t, pool, j, claim); err != nil {
			return host.Picked{}, err
		}
	}
	claim.Change = change
	claim.HCAs, claim.Claims = t.Of(j.ID, j.Run.String())
	claim.Uplink = t.Uplink(j.ID, j.Run.String())
	if err := l.note(claim); err != nil {
		return host.Picked{}, err
	}
	return p, claim.Do(l.world)
}

// interfaces are those that come to the job.
func interfaces(hcas []plan.HCA) (all []*step.Settings) {
	for _, h := range hcas {
		all = append(all, h.Interfaces...)
	}
	return all
}

func namesOf(hcas []plan.HCA) string {
	var names []string
	for _, h := range hcas {
		names = append(names, h.Name)
	}
	return strings.Join(names, ", ")
}

// failed unwinds a lease that could not be completed.
func (l *open) failed(cause error) error {
	if err := l.unwind(); err != nil {
		return fmt.Errorf("%w; then %w", cause, err)
	}
	return cause
}

// refuse writes a lease that says why the job gets nothing, so that its steps
// fail with the reason while the node stays in service.
func (n *Host) refuse(ctx context.Context, j job.Job, refusal *gres.Refusal) error {
	l, err := n.create(ctx, j)
	if err != nil {
		return err
	}
	defer l.close()
	n.Log(event.Event{Kind: event.LeaseRefused, Job: j.ID, Notice: "refused: " + refusal.Error(), Reason: refusal.Reason})
	if err := l.writeEnv(refusedEnv(j, refusal)); err != nil {
		return l.failed(err)
	}
	return nil
}

// removeDir removes a lease's directory that has nothing in it any more but
// what a killed process left of it. The journal goes last, and only if nothing
// is there that it may be about.
func removeDir(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range []string{"netns", "dev"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("remove the lease %s: %s is there still", dir, name)
		}
	}
	if err := os.RemoveAll(host.EnvIn(dir)); err != nil {
		return err
	}
	for _, name := range []string{host.EnvIn(dir) + ".new", limitsIn(dir), hostsIn(dir), resolvIn(dir), markIn(dir), host.JournalIn(dir)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
