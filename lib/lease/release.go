package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/base/hint"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/hca/world"
	"gresnet/lib/lease/event"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/link"
	"gresnet/lib/state"
	"gresnet/lib/state/table"
)

// Release lets jobs have a quarantined HCA again, named by its RDMA device, its GUID, its PCI
// address or its whole identity. It first undoes what it still can; then the HCA must be on the
// node, and stays as it is, or the node must have lost it.
func (n *Host) Release(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, n.Config.Deadline.Epilog)
	defer cancel()
	if err := n.readyAgain(false); err != nil {
		return err
	}
	c, err := n.quarantined(name)
	if err != nil {
		return err
	}
	restoreLost(ctx, n.Host, true)
	if t, err := n.Table().Read(); err != nil {
		return err
	} else if slices.ContainsFunc(t.Claims, sameQuarantine(c)) {
		if err := n.free(ctx, c); err != nil {
			return err
		}
	}
	err = forgetLost(ctx, n.Host, c)
	if err == nil {
		n.Log(event.Event{Kind: event.HCAReleased, Job: c.Job, HCA: c.HCA.String(), Notice: c.Name + " is free for jobs again"})
	}
	return err
}

// free frees a quarantined HCA. It looks again under the job's lock: meanwhile a cleanup may have
// freed the HCA, and the next job claimed it.
func (n *Host) free(ctx context.Context, c table.Claim) error {
	err := ifFree(n.Host, c.Job, func() error {
		t, err := n.Table().Read()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(t.Claims, sameQuarantine(c)) {
			return hint.With(fmt.Errorf("release %s: it was freed meanwhile, by a cleanup or an epilog", c.Name), "GN206 gresnet status lists the HCAs")
		}
		return withLease(ctx, n.Host, c.Job, func(l *Lease) error {
			if l == nil || c.Doubt || c.Run != l.World.Run { // the lease that had it was set aside: one that is there is another run's
				return n.freeReturned(ctx, sameQuarantine(c))
			}
			if err := alive(l, Cleanup{Jobs: []uint32{c.Job}}); err != nil {
				return fmt.Errorf("release %s: %w", c.Name, err)
			}
			return n.releaseFrom(l, c)
		})
	})
	if errors.Is(err, state.ErrHeld) {
		return fmt.Errorf("release %s: a prolog or an epilog of job %d is running", c.Name, c.Job)
	}
	return err
}

// sameQuarantine returns a function that tells whether a claim is the same quarantine, though its
// reason may have changed, or one that came since.
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
	case len(named) == 0:
		if err := n.usedNow(t, name); err != nil {
			return table.Claim{}, err
		}
		return table.Claim{}, hint.With(fmt.Errorf("release %s: no HCA of that name is quarantined", name), "GN207 gresnet status lists the HCAs")
	case len(named) > 1:
		var ids []string
		for _, c := range named {
			ids = append(ids, c.HCA.String())
		}
		return table.Claim{}, hint.With(fmt.Errorf("release %s: that means more than one HCA", name), "GN208 say which: "+strings.Join(ids, ", "))
	case named[0].Quarantined == "":
		return table.Claim{}, hint.With(fmt.Errorf("release %s: it is not quarantined, job %d has it", name, named[0].Job),
			fmt.Sprintf("GN209 if that job is gone: gresnet cleanup %d", named[0].Job))
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
	free := t.Unclaimed(nil)
	for _, h := range t.HCAs {
		if !means(name, h.Name, h.ID) || !slices.Contains(free, h.ID) {
			continue
		}
		if by := u.Of(h.ID); by != "" {
			return hint.With(fmt.Errorf("release %s: %s", name, gres.Holder{User: by}), "GN210 end that process; then jobs get the HCA without a release")
		}
	}
	return u.Err
}

// releaseFrom undoes what can be undone, and gives up what remains of the HCA if the HCA is
// back.
func (n *Host) releaseFrom(l *Lease, c table.Claim) error {
	rolledBack := l.Rollback()
	if rolledBack == nil {
		return nil
	}
	if !l.World.Dir.Exists() {
		// The lease was damaged and is set aside; the person has seen the HCA.
		return n.freeReturned(context.WithoutCancel(l.World.Context), sameQuarantine(c))
	}
	if _, away := l.World.Away[c.HCA]; !away {
		return rolledBack // it is free; others are not
	}
	reason := l.World.Away[c.HCA]
	if err := l.giveUp(c.HCA); err != nil {
		err := fmt.Errorf("release %s: %w", c.Name, err)
		return remains(hint.With(err, "GN211 bring it to the root namespace, or reboot the node, which frees everything"))
	}
	n.Notice(l.World.Job, "%s is released as it is: %s", c.Name, reason)
	err := l.Rollback()
	if _, away := l.World.Away[c.HCA]; err != nil && !away {
		n.Notice(l.World.Job, "other HCAs of the lease were not returned: %s", err)
		return nil
	}
	return err
}

// giveUp marks undone all entries about an HCA that is on the node.
func (l *Lease) giveUp(id node.ID) error {
	entries, _ := l.left()
	entries = slices.DeleteFunc(entries, func(s Entry) bool { return s.HCA() != id })
	for _, s := range entries {
		if err := isReturned(l.World, s.Step); err != nil {
			return err
		}
	}
	for _, s := range entries {
		l.markUndone(s)
	}
	return nil
}

// isReturned returns an error unless the device that a step moved is on the node, or the node has lost
// it.
func isReturned(w *world.World, s step.Step) error {
	var err error
	switch s := s.(type) {
	case *step.RDMA:
		held, lockErr := s.Lock(w)
		if lockErr != nil {
			return lockErr
		}
		defer held.Close()
		err = w.OnHost(func(v *scan.View) error { _, err := v.Find(s.ID); return err })
	case *step.Link:
		err = w.OnHost(func(v *scan.View) error { _, err := v.Interface(s.Interface); return err })
	}
	if errors.Is(err, scan.ErrNotFound) || errors.Is(err, link.ErrNotFound) {
		lost := func() (bool, error) { return w.HasLost(s.HCA()) }
		if link, is := s.(*step.Link); is {
			lost = func() (bool, error) { return w.HasLostInterface(link.Of, link.Interface) }
		}
		if gone, goneErr := lost(); goneErr == nil && gone {
			return nil
		}
		return fmt.Errorf("%s is not in the root namespace", s.Object())
	}
	return err
}

// freeReturned frees claims that no lease has any more if their HCAs are on the node, or the node has lost
// them. It keeps the other HCAs from later jobs.
func (n *Host) freeReturned(ctx context.Context, is func(table.Claim) bool) error {
	t, err := n.Table().Read()
	if err != nil || !slices.ContainsFunc(t.Claims, is) {
		return err
	}
	l, done, err := n.LookFor(ctx, 0)
	if err != nil {
		return err
	}
	defer done()
	mine := slices.DeleteFunc(slices.Clone(t.Claims), func(c table.Claim) bool { return !is(c) })
	lost, away, err := takeBack(l, &t, mine)
	if err != nil {
		return err
	}
	free := func(c table.Claim) bool { return is(c) && away[c.HCA] == "" }
	if err := n.unguard(l.World, t.Claims, free); err != nil {
		return err
	}
	var failed []error
	for _, c := range mine {
		if reason := away[c.HCA]; reason != "" {
			failed = append(failed, fmt.Errorf("release %s: %s", c.Name, reason))
		}
	}
	err = n.Table().Update(ctx, func(t *table.Table) error {
		t.Claims = slices.DeleteFunc(t.Claims, free)
		for i, c := range t.Claims {
			if is(c) {
				t.Claims[i].Quarantined = away[c.HCA]
			}
		}
		failed = append(failed, step.Reopen(l.World, t))
		return nil
	})
	if err != nil {
		return err
	}
	for _, c := range lost {
		n.Log(event.Event{Kind: event.HCAReleased, Job: c.Job, HCA: c.HCA.String(), Warning: fmt.Sprintf("%s (%s) is released: %s", c.Name, c.HCA, world.ErrGone)})
	}
	if err := hint.Join(failed...); err != nil {
		return remains(err)
	}
	return nil
}

// takeBack takes back the device nodes of claimed HCAs that are on the node. It returns the claims of those that
// the node has lost, and why others are not there.
func takeBack(l *host.Look, t *table.Table, claims []table.Claim) (lost []table.Claim, away map[node.ID]string, err error) {
	away = map[node.ID]string{}
	for _, c := range claims {
		reason, err := l.Absent(t, c.HCA)
		switch {
		case errors.Is(err, world.ErrGone):
			lost = append(lost, c)
			continue
		case err != nil:
			return nil, nil, err
		case reason != "":
			away[c.HCA] = reason
			continue
		}
		if err := l.World.OnHost(func(v *scan.View) error { return v.TakeBack(l.World.Dev, c.HCA) }); err != nil {
			return nil, nil, fmt.Errorf("release %s: take its device nodes back: %w", c.Name, err)
		}
	}
	return lost, away, nil
}

// unguard ends the guard for jobs that have no lease, and no claim but those that go. It comes before these go: after a
// kill somebody releases them again.
func (n *Host) unguard(w *world.World, claims []table.Claim, goes func(table.Claim) bool) error {
	for _, c := range claims {
		stays := func(o table.Claim) bool { return o.Job == c.Job && !goes(o) }
		if !goes(c) || n.State.Lease(c.Job).Exists() || slices.ContainsFunc(claims, stays) {
			continue
		}
		if err := step.Unguard(w, c.Job); err != nil {
			return fmt.Errorf("release %s: %w", c.Name, err)
		}
	}
	return nil
}
