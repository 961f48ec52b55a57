package step

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/link"
	"gresnet/lib/nft"
	"gresnet/lib/scan"
	"gresnet/lib/table"
	"gresnet/lib/virtual"
)

// Forwarding is what jobs' ways out need of the node as long as there is one of them, and so no
// one job's: the node table says which interfaces forward for them, and each claim's note has a
// copy. It is noted before any is changed (HoldForwarding), by each job's uplink made so if it is not
// (forward), and ended by who frees the last such uplink, under the lock (FreeUplink).

// HoldForwarding notes in the table those of the interfaces that do not forward. One that does
// is left alone. It returns all that is noted, of which the job's claim has a copy.
func HoldForwarding(v *scan.View, t *table.Table, leads []link.Interface) ([]table.Forwarding, error) {
	router, err := link.Forwards(link.All)
	if err != nil {
		return nil, err
	}
	for _, i := range leads {
		if slices.ContainsFunc(t.Forwarding, func(f table.Forwarding) bool { return f.Index == i.Index }) {
			continue
		}
		on, err := link.Forwards(i.Name)
		if link.IsGone(err) || err == nil && on {
			continue
		}
		f := table.Forwarding{Index: i.Index, Name: i.Name, Router: router}
		if err == nil {
			f.LRO, err = v.Link.LRO(i.Index)
		}
		if err != nil {
			return nil, err
		}
		t.Forwarding = append(t.Forwarding, f)
	}
	return slices.Clone(t.Forwarding), nil
}

// guardTable is the nftables table that keeps an interface from forwarding for others.
func guardTable(f table.Forwarding) string { return fmt.Sprintf("gresnet_forward_%d", f.Index) }

// forward has an interface forward. The guard is there first.
func forward(v *scan.View, f table.Forwarding) error {
	i, err := v.Link.Get(f.Index)
	if err == nil {
		err = nft.Guard(guardTable(f), uint32(f.Index), virtual.UplinkBit)
	}
	if err == nil {
		err = link.Forward(i.Name, true)
	}
	if link.IsGone(err) {
		return nil // and with it the way
	}
	return err
}

// endForward makes an interface as it was, unless the node forwards by all of its interfaces since:
// that was somebody else's doing.
func endForward(v *scan.View, f table.Forwarding) error {
	router, err := link.Forwards(link.All)
	if err == nil && (!router || f.Router) {
		err = endForwardBy(v, f)
	}
	if err != nil {
		return fmt.Errorf("end forwarding by %s: %w", f.Name, err)
	}
	return nil
}

// endForwardBy looks first: what did not come so far may be what nobody can write.
func endForwardBy(v *scan.View, f table.Forwarding) error {
	i, err := v.Link.Get(f.Index)
	on := false
	if err == nil {
		on, err = link.Forwards(i.Name)
	}
	if err == nil && on {
		err = link.Forward(i.Name, false)
	}
	for _, below := range f.LRO {
		if err == nil || link.IsGone(err) {
			err = v.Link.WantLRO(below)
		}
	}
	if link.IsGone(err) {
		return nil
	}
	return err
}

// FreeUplink frees in the table the address of a job's uplink, which is gone, and ends what no job
// needs any more. What cannot be ended stays noted, so that who comes next tries again: the
// table is to be written nevertheless.
func (w *World) FreeUplink(t *table.Table, job uint32, run string) error {
	t.FreeUplink(job, run)
	if len(t.Forwarding) == 0 || t.LeadOut() {
		return nil
	}
	var failed []error
	var left []table.Forwarding
	err := w.OnHost(func(v *scan.View) error {
		var guards []string
		for _, f := range t.Forwarding {
			if err := endForward(v, f); err != nil {
				left, failed = append(left, f), append(failed, err)
				continue
			}
			guards = append(guards, guardTable(f))
		}
		return nft.Remove(guards...)
	})
	if err == nil {
		t.Forwarding = left
	}
	return errors.Join(append(failed, err)...)
}
