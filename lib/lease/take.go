package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gresnet/lib/base/config"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/environment"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/state/table"
)

// Take gives a job the HCAs that it is entitled to. A job that is entitled to none gets no lease. A
// lease that this run of the job has already stays as it is; Take first rolls back one of an earlier
// run. If the job asked for something wrong, it gets a refused lease, with which its steps fail,
// and Take returns no error.
//
// Its order: the node is readied; what earlier runs left is undone; the sources say what the job is entitled to; its
// HCAs are claimed; what the moves will lose is read; the steps are planned, written into the journal and done; the lease is committed.
//
// After an error the node is as it was; if not, the error is ErrRemains.
func (n *Host) Take(ctx context.Context, j job.Job) error {
	err := n.takeInTime(ctx, j)
	if err == nil || errors.Is(err, ErrRemains) || errors.As(err, new(punctualError)) || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.Undo/2)
	defer cancel()
	return n.afterLeftovers(ctx, j, func() error { return n.refuse(ctx, j, tooSlow(j, err)) })
}

// punctualError is a failure before the prolog's time was over. What failed is the node's fault, though the time ended
// while the lease was undone.
type punctualError struct{ error }

func (e punctualError) Unwrap() error { return e.error }

// takeInTime does what Take does, and fails if the time is over.
func (n *Host) takeInTime(ctx context.Context, j job.Job) error {
	if err := n.begin(ctx, j.Start); err != nil {
		return err
	}
	asked := sync.OnceValues(func() (entitlement, error) { return n.ask(ctx, j) })
	if !n.hasLeftovers(j.ID) {
		if e, err := asked(); err == nil && len(e.wants) == 0 {
			return n.give(ctx, j, e) // without the job's lock: it would guard nothing
		}
	}
	return n.afterLeftovers(ctx, j, func() error {
		e, err := asked()
		if err == nil {
			err = n.give(ctx, j, e)
		}
		var refusal *gres.Refusal
		if errors.As(err, &refusal) && !errors.Is(err, ErrRemains) {
			return n.refuse(ctx, j, refusal)
		}
		return err
	})
}

// entitlement is what the sources say of a job. less is why that is less than the job could expect.
type entitlement struct {
	wants []gres.Want
	less  []string
}

// ask asks the sources what a job is entitled to.
func (n *Host) ask(ctx context.Context, j job.Job) (e entitlement, err error) {
	defer n.Time("ask what the job is entitled to")()
	local := n.Local(func() (gres.Mapping, error) { return n.pin(ctx, n.Mapped) })
	local.Less = func(why string) { e.less = append(e.less, why) }
	wants, notes, err := source.Ask(ctx, j, n.Config, local)
	e.wants = wants
	for _, note := range notes {
		n.Notice(j.ID, "%s", note)
	}
	return e, err
}

// give gives a job what it is entitled to, and tells its steps why that is less than it could expect.
func (n *Host) give(ctx context.Context, j job.Job, e entitlement) error {
	less := e.less
	if len(e.wants) > 0 {
		lacks, err := n.takeWanted(ctx, j, e.wants)
		if err != nil {
			return err
		}
		less = append(less, lacks...)
	}
	environment.Notify(n.Host, j, less)
	return nil
}

// takeWanted takes what a job wants. It waits for HCAs of other jobs as long as these are about to return them. lacks
// says which HCAs the job does without because they are not free.
func (n *Host) takeWanted(ctx context.Context, j job.Job, wants []gres.Want) (lacks []string, err error) {
	if n.Joined != nil {
		if err := n.Joined(); err != nil {
			return nil, err
		}
	}
	if j.Others, err = source.Companions(ctx, j, n.Config); err != nil {
		return nil, err
	}
	if err := n.reclaim(ctx, j, wants); err != nil {
		return nil, err
	}
	for {
		passed, err := n.takeLease(ctx, j, wants)
		var taken *gres.Taken
		if !errors.As(err, &taken) || errors.Is(err, ErrRemains) {
			return passedOver(passed), err
		}
		if err := n.waitForAnyHolder(ctx, j.ID, taken); err != nil {
			return nil, err
		}
	}
}

// taking is a lease while a prolog takes it.
type taking struct {
	*Lease
	job    job.Job
	access config.Access
	pool   *jobnet.Pool  // where the job's uplink gets its address; nil: it has none
	uplink *table.Uplink // its address; nil: it has none
}

// takeLease takes what a job wants into a new lease. passed has the HCAs that the job does without because they are not
// free.
func (n *Host) takeLease(ctx context.Context, j job.Job, wants []gres.Want) (passed []gres.Holding, err error) {
	l, err := create(ctx, n.Host, j)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	defer func() {
		if err == nil {
			return
		}
		punctual := ctx.Err() == nil
		err = l.Failed(err)
		if punctual {
			err = punctualError{err}
		}
	}()

	t := &taking{Lease: l, job: j, access: n.Access(j)}
	if t.pool, err = l.Look().PoolFor(j, t.access); err != nil {
		return nil, err
	}
	p, err := t.claimHCAs(ctx, wants)
	if err != nil {
		return nil, err
	}
	if len(p.Entries) == 0 {
		return p.Passed, l.Rollback() // nothing that the job wants is free
	}
	return p.Passed, t.fill(ctx, p)
}

// claimHCAs claims HCAs, and an address if the job has an uplink, in the node table.
func (t *taking) claimHCAs(ctx context.Context, wants []gres.Want) (p host.Picked, err error) {
	u, err := t.Host.Users()
	if err != nil {
		return host.Picked{}, err
	}
	defer u.Close()
	claim := new(step.Claim)
	err = t.DoBy(claim, func() error {
		p, err = t.claimLocked(ctx, claim, wants, u)
		return err
	})
	return p, err
}

// claimLocked decides what the job gets, writes it into the journal and then claims it in the node table, under the node
// lock.
func (t *taking) claimLocked(ctx context.Context, claim *step.Claim, wants []gres.Want, u *scan.Users) (host.Picked, error) {
	change, err := t.World.Table.Begin(ctx)
	if err != nil {
		return host.Picked{}, err
	}
	defer change.Close()
	now := &change.Table
	p, err := t.Host.Pick(now, t.job, wants, u)
	if err != nil {
		return host.Picked{}, err
	}
	if len(p.Entries) > 0 {
		if err := t.claimUplink(now); err != nil {
			return host.Picked{}, err
		}
	}
	claim.Take(t.World, change)
	t.uplink = now.Uplink(t.World.Job, t.World.Run)
	if err := t.AddEntry(claim); err != nil {
		return host.Picked{}, err
	}
	return p, claim.Do(t.World)
}

// fill moves the claimed HCAs into the lease, and commits it.
func (t *taking) fill(ctx context.Context, p host.Picked) error {
	n, look := t.Host, t.Look()
	mode, hcas, err := look.Read(t.job, t.access, p)
	if err != nil {
		return err
	}
	checkMode(n, t.World.Job, mode)
	nodes, err := look.Network(ctx, t.job, t.access)
	if err != nil {
		return err
	}
	over, up := t.networks(nodes)
	if err := checkNames(up, nodes, interfaceNames(hcas)); err != nil {
		return err
	}
	if err := t.CarryOut(ctx, step.Plan(t.job, mode, t.access, up, over, hcas)); err != nil {
		return err
	}
	if err := t.leadRails(look, nodes, hcas); err != nil {
		return err
	}
	if err := t.CarryOut(ctx, t.hooks(mode, namesOf(hcas))); err != nil {
		return err
	}
	return t.commit(mode, hcas, nodes)
}

// checkMode warns if the node is not in the mode that the configuration wants. Jobs get their HCAs all the same: a file
// that somebody changed on all nodes at once must not drain them all.
func checkMode(n *host.Host, job uint32, mode rdma.Mode) {
	if want := n.Config.RDMA.Mode; want != "" && string(mode) != want {
		n.Log(event.Event{Kind: event.ModeWrong, Job: job, Warning: fmt.Sprintf(
			"the node is in %s mode, the configuration wants %s: reboot the node; journalctl -u gresnet.service says why it is not", mode, want)})
	}
}

// commit tells the job of its lease, which counts from then on.
func (t *taking) commit(mode rdma.Mode, hcas []step.HCA, nodes *jobnet.Network) error {
	lease := environment.Lease{
		Host: t.Host, World: t.World, Job: t.job, Access: t.access, Mode: mode, HCAs: hcas,
		Uplink: t.made(), Network: nodes, Srun: t.World.WayOut.Srun && t.job.Leader == 0,
	}
	if err := lease.Write(); err != nil {
		return err
	}
	t.Host.Tell(event.LeaseTaken, t.World.Job, "the lease is taken, in %s mode: %s", mode, strings.Join(namesOf(hcas), ", "))
	return nil
}

func namesOf(hcas []step.HCA) (names []string) {
	for _, h := range hcas {
		names = append(names, h.Name)
	}
	return names
}

// passedOver says why a job does without HCAs that are not free.
func passedOver(list []gres.Holding) (why []string) {
	for _, h := range list {
		why = append(why, fmt.Sprintf("%s (%s) is not granted: %s", h.Entry, h.Entry.HCA.Name, h.Holder))
	}
	return why
}

// hooks returns the step that runs the site's programs, if there are any. A job in the node's network has none, because
// no step undoes what programs do there.
func (t *taking) hooks(mode rdma.Mode, hcas []string) []step.Step {
	site := t.Host.Config.Hooks
	if site.Ready == "" && site.Leave == "" || t.access.Isolation == config.IsolateDevices {
		return nil
	}
	return []step.Step{&step.Hook{
		Ready: site.Ready, Leave: site.Leave, Timeout: site.Timeout, Fault: site.Fault, Mode: mode,
		Env: append(source.Environment(t.job), "GRESNET_HCAS="+strings.Join(hcas, ",")),
	}}
}

// pin returns the mapping, and writes all of its HCAs into the table. So an index that a source takes from it means the
// same HCA when the job claims it, even if other HCAs come meanwhile. It takes the node lock only if the table lacks an
// HCA.
func (n *Host) pin(ctx context.Context, mapped func(*table.Table) (gres.Mapping, error)) (m gres.Mapping, err error) {
	t, err := n.Table().Read()
	if err != nil {
		return nil, err
	}
	known := slices.Clone(t.HCAs)
	if m, err = mapped(&t); err != nil || len(t.HCAs) == len(known) {
		return m, err
	}
	err = n.Table().Update(ctx, func(now *table.Table) error {
		if slices.EqualFunc(now.HCAs, known, sameHCA) {
			now.HCAs = t.HCAs // no other run has pinned any meanwhile, so this look is still good
			return nil
		}
		m, err = mapped(now)
		return err
	})
	return m, err
}

func sameHCA(a, b node.HCA) bool { return a.ID == b.ID }
