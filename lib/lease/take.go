package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gresnet/lib/config"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/job"
	"gresnet/lib/link"
	"gresnet/lib/manager"
	"gresnet/lib/plan"
	"gresnet/lib/rdma"
	"gresnet/lib/scan"
	"gresnet/lib/source"
	"gresnet/lib/step"
	"gresnet/lib/table"
	"gresnet/lib/uplink"
)

// Take gives a job the HCAs that it is entitled to. A job that is entitled to
// none gets no lease. A lease that this run of the job has already is left as
// it is; one of an earlier run is unwound first. What the job asked wrongly
// becomes a refused lease, which its steps fail with, and no error.
//
// After an error the node is as it was; if not, the error is ErrRemains.
func (n *Host) Take(ctx context.Context, j job.Job) error {
	looked := n.stopwatch()
	if err := n.prepare(); err != nil {
		return err
	}
	if err := n.rebuildTable(ctx); err != nil {
		return err
	}
	// Whatever this job gets, it is not to open what it does not get.
	if err := n.Close(); err != nil {
		return err
	}
	looked.stop("look after the node table and who can open device nodes")
	return n.underLock(ctx, j.ID, func() error {
		done, err := n.existingLease(ctx, j)
		if done || err != nil {
			return err
		}
		n.removeJobNotice(j.ID) // what an earlier run was told
		asked := n.stopwatch()
		var less []string
		local := n.local(func() (gres.Mapping, error) { return n.pin(ctx, n.mapped) })
		local.Less = func(why string) { less = append(less, why) }
		wants, notes, err := source.Ask(ctx, j, n.Config, local)
		asked.stop("ask what the job is entitled to")
		for _, note := range notes {
			n.notice(j.ID, "%s", note)
		}
		var refusal *gres.Refusal
		switch {
		case errors.As(err, &refusal):
			return n.refuse(ctx, j, refusal)
		case err != nil:
			return err
		case len(wants) == 0:
			n.tellJob(j, less)
			return nil
		}
		// A lease that somebody removed left its claims, and a job must not wait for itself.
		if err := n.abandoned(ctx, j.ID); err != nil {
			return remains(err)
		}
		if err := n.reclaim(ctx, j, wants); err != nil {
			return err
		}
		passed, err := n.takeFree(ctx, j, wants)
		if err == nil {
			n.tellJob(j, append(less, passedOver(passed)...))
		}
		if errors.As(err, &refusal) && !errors.Is(err, ErrRemains) {
			return n.refuse(ctx, j, refusal)
		}
		return err
	})
}

// existingLease deals with a lease that is there already, and tells whether it is this run's own.
func (n *Host) existingLease(ctx context.Context, j job.Job) (done bool, err error) {
	l, err := n.resume(ctx, j.ID)
	if errors.Is(err, errNoLease) {
		if err := removeDir(n.dir(j.ID)); err != nil {
			return false, remains(err)
		}
		return false, nil
	}
	if err != nil {
		return false, remains(err)
	}
	defer l.close()
	if l.complete() && l.world.Run == j.Run.String() {
		n.notice(j.ID, "the lease is there already")
		return true, nil
	}
	n.notice(j.ID, "unwinding what run %s left", l.world.Run)
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

	access := n.access(j)
	pool, err := l.poolFor(access)
	if err != nil {
		return nil, err
	}
	var p picked
	claim := new(step.Claim)
	err = l.timed(do, claim, func(*step.World) (err error) {
		p, err = l.claim(ctx, j, wants, pool, claim)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(p.entries) == 0 {
		return p.passed, l.unwind() // what the job would have had, if it were free, is not
	}
	looked := n.stopwatch()
	mode, hcas, err := l.read(j, access, p)
	looked.stop("read what the moves lose")
	if err != nil {
		return nil, err
	}
	n.checkMode(j.ID, mode)
	found := n.stopwatch()
	network, err := l.network(ctx, j, access, n.canMove)
	found.stop("find the job's other nodes")
	if err != nil {
		return nil, err
	}
	up := uplinkStep(pool, claim.Uplink, j.UID, claim.Forwarding)
	l.letIn(up, j)
	if err := l.apart(up, network, interfaces(hcas)); err != nil {
		return nil, err
	}
	if err := l.carryOut(ctx, plan.Take(j, mode, access, up, overlayStep(network, n.Config.Overlay, up), hcas)); err != nil {
		return nil, err
	}
	told := n.stopwatch()
	if err := l.commit(j, access, mode, l.had(up, claim.Uplink), network, hcas); err != nil {
		return nil, err
	}
	told.stop("tell the job of it, commit")
	n.tell(LeaseTaken, j.ID, "the lease is taken, in %s mode: %s", mode, namesOf(hcas))
	return p.passed, nil
}

// claim takes HCAs, and an address if the job has an uplink, in the node table. All of it
// is decided, noted in the journal and written in this order, under the node lock.
func (l *open) claim(ctx context.Context, j job.Job, wants []gres.Want, pool *uplink.Pool, claim *step.Claim) (picked, error) {
	change, err := l.world.Table.Begin(ctx)
	if err != nil {
		return picked{}, err
	}
	defer change.Close()
	t := &change.Table
	p, err := l.node.pick(t, j, wants)
	if err != nil {
		return picked{}, err
	}
	if len(p.entries) > 0 {
		if err := l.claimUplink(t, pool, j, claim); err != nil {
			return picked{}, err
		}
	}
	claim.Change = change
	claim.HCAs, claim.Claims = t.Of(j.ID, j.Run.String())
	claim.Uplink = t.Uplink(j.ID, j.Run.String())
	if err := l.note(claim); err != nil {
		return picked{}, err
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

// access is what a job gets of its HCAs.
func (n *Host) access(j job.Job) config.Access {
	access := n.Config.Access
	access.Isolation = source.Isolation(n.Config, j)
	return access
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
	n.Log(Event{Kind: LeaseRefused, Job: j.ID, Notice: "refused: " + refusal.Error(), Reason: refusal.Reason})
	if err := l.writeEnv(refusedEnv(j, refusal)); err != nil {
		return l.failed(err)
	}
	return nil
}

// picked is what a job gets of the node's mapping, and what was looked at to find it.
type picked struct {
	entries  []gres.Entry
	mapping  gres.Mapping
	topology gres.Topology // as far as near needed it
	passed   []gres.Holding
}

// pick claims HCAs for a job in the table.
func (n *Host) pick(t *table.Table, j job.Job, wants []gres.Want) (p picked, err error) {
	if p.mapping, err = n.mapped(t); err != nil {
		return picked{}, claimFault(j.ID, err)
	}
	near, topology, err := n.near(j, p.mapping, wants)
	if err != nil {
		return picked{}, claimFault(j.ID, err)
	}
	p.topology = topology
	u, err := n.lookForUsers()
	if err != nil {
		return picked{}, claimFault(j.ID, err)
	}
	defer u.close()
	if p.entries, err = gres.Choose(wants, p.mapping, u.heldOrUsed(t), near); err != nil || u.err != nil {
		return picked{}, claimFault(j.ID, cmp.Or(u.err, err))
	}
	p.passed = gres.PassedOver(wants, p.mapping, u.heldOrUsed(t))
	if u.err != nil {
		return picked{}, claimFault(j.ID, u.err)
	}
	for _, e := range p.entries {
		t.Claims = append(t.Claims, table.Claim{
			HCA: e.HCA.ID, Name: e.HCA.Name, Gres: e.Gres, Index: e.Index,
			Job: j.ID, Run: j.Run.String(), UID: j.UID, Since: n.Now(),
		})
	}
	return p, nil
}

// read looks at what was claimed, before anything of it is changed.
func (l *look) read(j job.Job, access config.Access, p picked) (mode rdma.Mode, hcas []plan.HCA, err error) {
	devices := access.Isolation == config.IsolateDevices
	l.lookForLifelines(p)
	err = l.world.OnHost(func(v *scan.View) (err error) {
		if mode, err = v.Mode(); err != nil {
			return err
		}
		if devices && mode == rdma.Exclusive {
			err := errors.New(`isolation = "devices" is for the shared RDMA netns mode, and the node is in exclusive mode`)
			return hint.With(err, "leave isolation out of gresnet.toml, or put the node into shared mode: [rdma] mode")
		}
		return v.Link.Once(func() error {
			for _, e := range p.entries {
				e.Keep = e.Keep || devices
				h, err := l.readHCA(v, mode, e)
				if err == nil && devices {
					h.Ready, err = ready(v, h.Ports)
				}
				if err != nil {
					return fmt.Errorf("claim %s for job %d: %w", e.HCA.Name, l.world.Job, err)
				}
				hcas = append(hcas, h)
			}
			return nil
		})
	})
	if err != nil {
		return "", nil, err
	}
	return mode, hcas, l.node.locate(j, p, hcas)
}

func (l *look) readHCA(v *scan.View, mode rdma.Mode, e gres.Entry) (plan.HCA, error) {
	d, err := v.Find(e.HCA.ID)
	if err != nil {
		return plan.HCA{}, hint.With(err, "compare `rdma dev` with the configuration; is its driver loaded, or is it in another namespace?")
	}
	if err := v.MAD(&d); err != nil {
		return plan.HCA{}, err
	}
	if len(d.Chars) == 0 {
		err := fmt.Errorf("%s has no uverbs device, without which no program can use it", d.Name)
		return plan.HCA{}, hint.With(err, "load ib_uverbs")
	}
	foreign, err := v.Foreign(d)
	if err != nil {
		return plan.HCA{}, err
	}
	moves := mode == rdma.Exclusive || !e.Keep
	if len(foreign) > 0 && moves {
		err := fmt.Errorf("the kernel uses %s for %s", d.Name, strings.Join(foreign, ", "))
		return plan.HCA{}, hint.With(err, "an HCA that the node itself needs cannot be a job's: leave it out of the mapping")
	}
	h := plan.HCA{ID: d.ID, Name: d.Name, Keep: e.Keep}
	if mode == rdma.Exclusive {
		if h.CM, err = l.world.ReadCM(d.Name); err != nil {
			return plan.HCA{}, err
		}
	}
	if h.Access, err = step.ReadAccess(l.world.Dev, d); err != nil {
		return plan.HCA{}, err
	}
	if l.node.Config.Access.Host == config.Closed {
		h.Access.KeepClosed()
	}
	if health := l.node.Config.Health.Port; health != config.HealthOff {
		h.Access.Health = health
		if h.Access.Ports, err = step.ReadPorts(v, d); err != nil {
			return plan.HCA{}, err
		}
	}
	if h.Ports, err = v.Ports(d); err != nil {
		return plan.HCA{}, err
	}
	if h.RoCEv2, err = l.readRoCEv2(v, d, h.Ports); err != nil {
		return plan.HCA{}, err
	}
	for _, p := range h.Ports {
		if p.Interface == nil {
			continue
		}
		if !plan.Changes(mode, e.Keep, p.Interface.ID) {
			continue
		}
		if err := survives(e.Keep, d, p.Interface.Name); err != nil {
			return plan.HCA{}, err
		}
		s, err := v.Link.Settings(p.Interface.Index)
		if err != nil {
			return plan.HCA{}, err
		}
		if plan.Remakes(mode, p.Interface.ID) {
			if err := v.Link.Remade(p.Interface.Index, &s); err != nil {
				return plan.HCA{}, err
			}
		}
		m, err := manager.Of(l.node.Run, p.Interface.Index)
		if err != nil {
			return plan.HCA{}, err
		}
		if m.Configured {
			s.Manager = m.Name
		}
		// Of one that stays, what is made anew is away meanwhile.
		if !e.Take {
			if err := l.guard(v, p.Interface.Index, s); err != nil {
				return plan.HCA{}, err
			}
		}
		gids, err := gidsOf(v, d, p, s)
		if err != nil {
			return plan.HCA{}, err
		}
		h.Interfaces = append(h.Interfaces, &step.Settings{
			Of: d.ID, Port: p.Num, Interface: p.Interface.ID, Settings: s, GIDs: gids,
		})
	}
	return h, nil
}

// survives is an error for an HCA whose RDMA device would end with the move of its interface.
func survives(keep bool, d scan.Device, moved string) error {
	if keep || !rdma.EndsWithInterface(d.Driver) {
		return nil
	}
	err := fmt.Errorf("driver %s ends %s when its interface %s is moved", d.Driver, d.Name, moved)
	return hint.With(err, `set interface = "keep" in its [[hca]]`)
}

// gidsOf are the GIDs of a port that are there for the interface's addresses.
// They go with the interface and have to be waited for where it arrives.
func gidsOf(v *scan.View, d scan.Device, p scan.Port, s link.Settings) ([]netip.Addr, error) {
	if p.LinkLayer != ethernet {
		return nil, nil
	}
	var own []netip.Addr
	for _, a := range s.Addresses {
		own = append(own, netip.AddrFrom16(a.Addr().Addr().As16()))
	}
	missing, err := v.MissingGIDs(d, p.Num, own)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(own, func(gid netip.Addr) bool { return slices.Contains(missing, gid) }), nil
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
	if err := os.RemoveAll(envIn(dir)); err != nil {
		return err
	}
	for _, name := range []string{envIn(dir) + ".new", limitsIn(dir), hostsIn(dir), resolvIn(dir), markIn(dir), journalIn(dir)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
