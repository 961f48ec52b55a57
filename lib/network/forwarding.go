package network

import (
	"errors"
	"fmt"
	"slices"

	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/nft"
	"gresnet/lib/link"
	"gresnet/lib/network/virtual"
	"gresnet/lib/state/table"
)

// The node forwards for automatic uplinks as long as a job has one. That belongs to no single job: the node
// table says which interfaces forward for jobs, and each claim's note has a copy. HoldForwarding notes the
// interfaces before anything changes them. Each job's uplink sets all that is noted (beginForwarding). Whoever
// frees the last such uplink ends it (endForwarding). The first and the last run under the node lock.

// HoldForwarding notes in the table those of the interfaces that do not forward yet. It returns all
// entries of the table, for the job's claim.
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

// guardTable returns the name of the nftables table that keeps an interface from forwarding for
// others than jobs.
func guardTable(f table.Forwarding) string { return fmt.Sprintf("gresnet_forward_%d", f.Index) }

// beginForwarding makes an interface forward. It makes the guard first.
func beginForwarding(v *scan.View, f table.Forwarding) error {
	i, err := v.Link.Get(f.Index)
	if err == nil {
		err = nft.Guard(guardTable(f), uint32(f.Index), virtual.UplinkBit)
	}
	if err == nil {
		err = link.Forward(i.Name, true)
	}
	if link.IsGone(err) {
		return nil // nobody reaches anything by it
	}
	return err
}

// endOf restores an interface's settings, unless the node forwards by all of its interfaces by
// now, because somebody else set that.
func endOf(v *scan.View, f table.Forwarding) error {
	router, err := link.Forwards(link.All)
	if err == nil && (!router || f.Router) {
		err = endBy(v, f)
	}
	if err != nil {
		return fmt.Errorf("end forwarding by %s: %w", f.Name, err)
	}
	return nil
}

// endBy looks before it writes: perhaps beginForwarding failed because nobody can write the sysctl.
func endBy(v *scan.View, f table.Forwarding) error {
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

// forwardsInVain tells whether the node forwards although no job needs it any more.
func forwardsInVain(t *table.Table) bool { return len(t.Forwarding) > 0 && !t.LeadOut() }

// endForwarding restores the settings of all interfaces. Call it if the node forwards in vain. An entry whose
// interface it cannot restore stays in the table, so that the next run tries again: write the table
// even if endForwarding fails.
func endForwarding(v *scan.View, t *table.Table) error {
	var failed []error
	var left []table.Forwarding
	var guards []string
	for _, f := range t.Forwarding {
		if err := endOf(v, f); err != nil {
			left, failed = append(left, f), append(failed, err)
			continue
		}
		guards = append(guards, guardTable(f))
	}
	err := nft.Remove(guards...)
	if err == nil {
		t.Forwarding = left
	}
	return errors.Join(append(failed, err)...)
}
