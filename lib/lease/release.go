package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"gresnet/lib/event"
	"gresnet/lib/gres"
	"gresnet/lib/hint"
	"gresnet/lib/lock"
	"gresnet/lib/node"
	"gresnet/lib/recovery"
	"gresnet/lib/scan"
	"gresnet/lib/step"
	"gresnet/lib/table"
)

// Release lets jobs have a quarantined HCA again, named by its RDMA device, its
// GUID, its PCI address or all of its identity. What can be undone still is
// undone first; then the HCA must be on the node, and is taken as it is.
func (n *Host) Release(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, n.Config.Deadline.Epilog)
	defer cancel()
	if err := n.ready(ctx); err != nil {
		return err
	}
	c, err := n.quarantined(name)
	if err != nil {
		return err
	}
	err = n.letGo(ctx, c)
	if err == nil {
		n.Log(event.Event{Kind: event.HCAReleased, Job: c.Job, HCA: c.HCA.String(), Notice: c.Name + " is free for jobs again"})
	}
	return err
}

// letGo frees an HCA that a person has found quarantined. Meanwhile a sweep may have freed
// it, and the next job claimed it: under the job's lock it is looked at again.
func (n *Host) letGo(ctx context.Context, c table.Claim) error {
	held, err := lock.TryJob(n.Locks(), c.Job)
	if errors.Is(err, lock.ErrHeld) {
		return fmt.Errorf("release %s: a prolog or an epilog of job %d is running", c.Name, c.Job)
	}
	if err != nil {
		return n.StateFault(err)
	}
	return n.under(held, c.Job, func() error {
		t, err := n.Table().Read()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(t.Claims, sameQuarantine(c)) {
			return hint.With(fmt.Errorf("release %s: it was freed meanwhile, by a sweep or an epilog", c.Name), "gresnet-prolog status lists the HCAs")
		}
		l, err := n.resume(ctx, c.Job)
		if errors.Is(err, errNoLease) {
			return n.freeHome(ctx, sameQuarantine(c))
		}
		if err != nil {
			return remains(err)
		}
		defer l.close()
		if c.Doubt || c.Run != l.world.Run {
			return n.freeHome(ctx, sameQuarantine(c)) // the lease that had it was set aside: this one is of another run
		}
		if err := l.alive(Sweep{Jobs: []uint32{c.Job}}); err != nil {
			return fmt.Errorf("release %s: %w", c.Name, err)
		}
		return l.release(c)
	})
}

// sameQuarantine tells the quarantine of an HCA from what others have claimed since.
// Its reason may have changed.
func sameQuarantine(c table.Claim) func(table.Claim) bool {
	return func(o table.Claim) bool {
		return o.HCA == c.HCA && o.Job == c.Job && o.Run == c.Run && o.Quarantined != ""
	}
}

// quarantined finds the one quarantined HCA that a person means.
func (n *Host) quarantined(name string) (table.Claim, error) {
	t, err := n.Table().Read()
	if err != nil {
		return table.Claim{}, err
	}
	named := slices.DeleteFunc(slices.Clone(t.Claims), func(c table.Claim) bool { return !means(name, c.Name, c.HCA) })
	switch {
	case len(named) == 0 && n.usedNow(t, name) != nil:
		return table.Claim{}, n.usedNow(t, name)
	case len(named) == 0:
		return table.Claim{}, hint.With(fmt.Errorf("release %s: no HCA of that name is quarantined", name), "gresnet-prolog status lists the HCAs")
	case len(named) > 1:
		var ids []string
		for _, c := range named {
			ids = append(ids, c.HCA.String())
		}
		return table.Claim{}, hint.With(fmt.Errorf("release %s: that means more than one HCA", name), "say which: "+strings.Join(ids, ", "))
	case named[0].Quarantined == "":
		return table.Claim{}, hint.With(fmt.Errorf("release %s: it is not quarantined, job %d has it", name, named[0].Job),
			fmt.Sprintf("if that job is gone: gresnet-epilog sweep %d", named[0].Job))
	}
	return named[0], nil
}

// means tells whether a person means an HCA by a name.
func means(name, rdma string, id node.ID) bool {
	return slices.Contains([]string{rdma, id.GUID, id.PCI, id.String()}, name)
}

// usedNow says of an HCA that no job has whose process uses it, which no release can end.
func (n *Host) usedNow(t table.Table, name string) error {
	u, err := n.Users()
	if err != nil {
		return err
	}
	defer u.Close()
	for _, h := range t.HCAs {
		if !means(name, h.Name, h.ID) {
			continue
		}
		if by := u.Of(h.ID); by != "" {
			return hint.With(fmt.Errorf("release %s: %s", name, gres.Holder{User: by}), "end that process; then jobs get the HCA without a release")
		}
	}
	return u.Err
}

// release undoes what can be undone; what remains of the HCA is given up if
// the HCA is at home.
func (l *open) release(c table.Claim) error {
	unwound := l.unwind()
	if unwound == nil {
		return nil
	}
	if _, left := os.Lstat(l.world.Dir); errors.Is(left, fs.ErrNotExist) {
		// The lease was damaged and is set aside; the person has seen the HCA.
		return l.node.freeHome(context.WithoutCancel(l.world.Context), sameQuarantine(c))
	}
	if _, away := l.world.Away[c.HCA]; !away {
		return unwound // it is free; others are not
	}
	reason := l.world.Away[c.HCA]
	if err := l.giveUp(c.HCA); err != nil {
		err := fmt.Errorf("release %s: %w", c.Name, err)
		return remains(hint.With(err, "bring it to the root namespace, or reboot the node, which frees everything"))
	}
	l.node.Notice(l.world.Job, "%s is released as it is: %s", c.Name, reason)
	err := l.unwind()
	if _, away := l.world.Away[c.HCA]; err != nil && !away {
		l.node.Notice(l.world.Job, "other HCAs of the lease are not home: %s", err)
		return nil
	}
	return err
}

// giveUp strikes what is left of an HCA that is at home.
func (l *open) giveUp(id node.ID) error {
	notes, _ := l.left()
	notes = slices.DeleteFunc(notes, func(s recovery.Note) bool { return s.HCA() != id })
	for _, s := range notes {
		if err := step.Home(l.world, s.Step); err != nil {
			return err
		}
	}
	for _, s := range notes {
		l.markUndone(s)
	}
	return nil
}

// freeHome frees claims that no lease speaks of any more, of HCAs that are on
// the node. Others are kept from later jobs.
func (n *Host) freeHome(ctx context.Context, is func(table.Claim) bool) error {
	t, err := n.Table().Read()
	if err != nil {
		return err
	}
	away := map[node.ID]string{}
	if !slices.ContainsFunc(t.Claims, is) {
		return nil
	}
	var failed []error
	for _, c := range t.Claims {
		if !is(c) {
			continue
		}
		reason, err := n.absent(&t, c.HCA)
		if err != nil {
			return err
		}
		if reason != "" {
			away[c.HCA] = reason
			failed = append(failed, fmt.Errorf("release %s: %s", c.Name, reason))
		}
	}
	err = n.Table().Update(ctx, func(t *table.Table) error {
		t.Claims = slices.DeleteFunc(t.Claims, func(c table.Claim) bool { return is(c) && away[c.HCA] == "" })
		for i, c := range t.Claims {
			if is(c) {
				t.Claims[i].Quarantined = away[c.HCA]
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return remains(hint.Join(failed...))
	}
	return nil
}

// absent says why an HCA is not on the node, nothing if it is, with all of the
// interfaces that it had when it was numbered.
func (n *Host) absent(t *table.Table, id node.ID) (string, error) {
	if lock.Held(n.Locks(), id) {
		return "a move of it has not ended", nil
	}
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return "", err
	}
	defer v.Close()
	d, err := v.Find(id)
	if errors.Is(err, scan.ErrNotFound) {
		return "it is not in the root namespace", nil
	}
	if err != nil {
		return "", err
	}
	ports, err := v.Ports(d)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(t.HCAs, func(h node.HCA) bool { return h.ID == id })
	for _, p := range ports {
		had := i >= 0 && slices.ContainsFunc(t.HCAs[i].Ports, func(o node.Port) bool { return o.Num == p.Num && o.Interface != "" })
		if had && p.Interface == nil {
			return fmt.Sprintf("the interface of port %d is not in the root namespace", p.Num), nil
		}
	}
	return "", nil
}
