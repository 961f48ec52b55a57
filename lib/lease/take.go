package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/hint"
	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/environment"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/plan"
	"gresnet/lib/lease/step"
	"gresnet/lib/network/jobnet"
	"gresnet/lib/state/table"
)

// Take gives a job the HCAs that it is entitled to. A job that is entitled to none gets no lease. A
// lease that this run of the job has already stays as it is; Take first unwinds one of an earlier
// run. If the job asked for something wrong, it gets a refused lease, with which its steps fail,
// and Take returns no error.
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
	asked := sync.OnceValues(func() (e entitlement, err error) { return n.ask(ctx, j) })
	if !n.hasLeftovers(j.ID) {
		if e, err := asked(); err == nil && len(e.wants) == 0 {
			environment.Notify(n.Host, j, e.less)
			return nil // without the job's lock: it would guard nothing
		}
	}
	return n.afterLeftovers(ctx, j, func() error {
		e, err := asked()
		less := e.less
		if err == nil && len(e.wants) > 0 {
			var lacks []string
			lacks, err = n.takeWanted(ctx, j, e.wants)
			less = append(less, lacks...)
		}
		var refusal *gres.Refusal
		if errors.As(err, &refusal) && !errors.Is(err, ErrRemains) {
			return n.refuse(ctx, j, refusal)
		}
		if err == nil {
			environment.Notify(n.Host, j, less)
		}
		return err
	})
}

// afterLeftovers calls take with the job's lock, when what earlier runs of the job left has ended. It does not call
// take if this run has its lease already. If something stays because time is lacking, afterLeftovers refuses the job.
func (n *Host) afterLeftovers(ctx context.Context, j job.Job, take func() error) error {
	return underLock(ctx, n.Host, j.ID, func() error {
		own, err := n.endLeftovers(ctx, j)
		if !own && err == nil {
			err = take()
		}
		if late := (LateError{}); errors.As(err, &late) {
			return n.refuseBeside(j, stays(j, err))
		}
		return err
	})
}

// begin readies the node and closes its device nodes: whatever a job gets, it must not open other HCAs.
// Then it restores HCAs that the node had lost. The job began at start.
func (n *Host) begin(ctx context.Context, start time.Time) error {
	defer n.Time("look after the node table and who can open device nodes")()
	if err := n.ready(start); err != nil {
		return err
	}
	if err := n.Close(ctx); err != nil {
		return err
	}
	restoreLost(ctx, n.Host, false)
	return nil
}

// endLeftovers ends what earlier runs of a job left. own says that this run has its lease already.
func (n *Host) endLeftovers(ctx context.Context, j job.Job) (own bool, err error) {
	l, err := open(ctx, n.Host, j.ID)
	if err == nil {
		defer l.Close()
		if l.World.Dir.Counts() && l.World.Run == j.Run.String() {
			n.Notice(j.ID, "the lease is there already")
			return true, nil
		}
		n.Notice(j.ID, "unwinding what run %s left", l.World.Run)
		err = l.Unwind()
	}
	if err != nil && !errors.Is(err, ErrNone) {
		return false, remains(err)
	}
	environment.Forget(n.Host, j.ID)
	return false, nil
}

// hasLeftovers tells whether earlier runs of a job left a lease, something for the job's steps, or a claim whose lease
// somebody removed. In doubt they did.
func (n *Host) hasLeftovers(id uint32) bool {
	for _, path := range []string{string(n.State.Lease(id)), n.State.Notice(id), n.State.Sign(id)} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	t := n.Readable(id)
	_, has := t.RunOf(id)
	return has
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

// tooSlow refuses a job whose prolog has no time left, and has undone what it did: any user can keep a node
// busy, and so drain it.
func tooSlow(j job.Job, err error) *gres.Refusal {
	return &gres.Refusal{
		Reason: gres.TooSlow, Ask: fmt.Sprintf("what job %d is to have", j.ID), Why: "the prolog's time is over: " + err.Error(),
		Do: "GN843 the node is as it was: start the job again; if that does not help, see what keeps the node busy, or raise deadline.prolog",
	}
}

// stays refuses a job for which an HCA does not come home: any user can keep one in a call, and the machine busy.
func stays(j job.Job, err error) *gres.Refusal {
	return &gres.Refusal{
		Reason: gres.TooSlow, Ask: fmt.Sprintf("what job %d is to have", j.ID), Why: "the prolog's time is over: " + err.Error(),
		Do: "GN872 what is not home is kept from later jobs: gresnet status says why; end the process that keeps it, then run gresnet sweep",
	}
}

// takeWanted takes what a job wants, and waits for HCAs that others hold as long as they are about to
// give them back. lacks is what the job would have besides, if it were free.
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
	pool   *jobnet.Pool // where the job's uplink gets its address; nil: it has none
	claim  *step.Claim
	uplink *table.Uplink // its address; nil: it has none
}

// takeLease takes what a job wants into a new lease. passed is what the job would have besides, if it
// were free.
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

	t := &taking{Lease: l, job: j, access: n.Access(j), claim: new(step.Claim)}
	if t.pool, err = l.Look().PoolFor(j, t.access); err != nil {
		return nil, err
	}
	p, err := t.claimHCAs(ctx, wants)
	if err != nil {
		return nil, err
	}
	if len(p.Entries) == 0 {
		return p.Passed, l.Unwind() // nothing that the job wants is free
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
	err = t.DoBy(t.claim, func() error {
		p, err = t.claimLocked(ctx, wants, u)
		return err
	})
	return p, err
}

// claimLocked decides what the job gets, notes it in the journal and then claims it in the node table,
// in this order, under the node lock.
func (t *taking) claimLocked(ctx context.Context, wants []gres.Want, u *scan.Users) (host.Picked, error) {
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
	t.claim.Take(t.World, change)
	t.uplink = now.Uplink(t.World.Job, t.World.Run)
	if err := t.Note(t.claim); err != nil {
		return host.Picked{}, err
	}
	return p, t.claim.Do(t.World)
}

// fill moves what is claimed into the lease, and makes the lease count.
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
	if err := t.CarryOut(ctx, plan.Steps(t.job, mode, t.access, up, over, hcas)); err != nil {
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

// commit tells the job of its lease, which counts from then on.
func (t *taking) commit(mode rdma.Mode, hcas []plan.HCA, nodes *jobnet.Network) error {
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

func namesOf(hcas []plan.HCA) (names []string) {
	for _, h := range hcas {
		names = append(names, h.Name)
	}
	return names
}

// refuse writes a lease that says why the job gets nothing: its steps fail with the reason, and the
// node stays in service.
func (n *Host) refuse(ctx context.Context, j job.Job, refusal *gres.Refusal) error {
	l, err := create(ctx, n.Host, j)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := n.refuseBeside(j, refusal); err != nil {
		return l.Failed(err)
	}
	return nil
}

// refuseBeside refuses a job by the lease that is there, beside what remains in it to be undone.
func (n *Host) refuseBeside(j job.Job, refusal *gres.Refusal) error {
	n.Log(event.Event{Kind: event.LeaseRefused, Job: j.ID, Notice: "refused: " + refusal.Error() + hint.Tag(hint.ID(refusal)), Reason: refusal.Reason, ID: hint.ID(refusal)})
	return environment.Refuse(n.State.Lease(j.ID), j, refusal)
}

// passedOver says why a job does without what it would have had, had it been free.
func passedOver(list []gres.Holding) (why []string) {
	for _, h := range list {
		why = append(why, fmt.Sprintf("%s (%s) is not granted: %s", h.Entry, h.Entry.HCA.Name, h.Holder))
	}
	return why
}

// hooks returns the step that runs the site's programs, if there are any. A job in the node's network has none:
// what they do there, nothing undoes.
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

// pin returns the mapping, and writes all of its HCAs into the table: so an index that a source
// takes from it means the same HCA when the job claims it, even if others come meanwhile. It takes
// the node lock only if the table lacks an HCA.
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
			now.HCAs = t.HCAs // nobody has pinned any meanwhile: what was seen is as good as another look
			return nil
		}
		m, err = mapped(now)
		return err
	})
	return m, err
}

func sameHCA(a, b node.HCA) bool { return a.ID == b.ID }
