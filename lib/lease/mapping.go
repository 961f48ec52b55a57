package lease

import (
	"context"
	"fmt"
	"slices"

	"gresnet/lib/gres"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/sysfs"
	"gresnet/lib/table"
)

// mapping is the GRES mapping: as fixed for this boot, or as the node is now
// if no lease was ever taken, or there is what was not there then.
func (n *Host) mapping() (gres.Mapping, error) {
	t, err := n.table().Read()
	if err != nil {
		return nil, err
	}
	return n.mapped(&t)
}

// mapped is the mapping by a table, to which what it does not know is added.
func (n *Host) mapped(t *table.Table) (gres.Mapping, error) {
	m, err := gres.Map(n.Config, t.HCAs)
	if err == nil && m.Drift() == nil && len(m) > 0 && !n.hasMore(t) {
		return m, nil
	}
	if err := n.look(t); err != nil {
		return nil, err
	}
	return gres.Map(n.Config, t.HCAs)
}

// hasMore tells whether the node has more HCAs than a table, as where a driver was
// slower at boot than the first job. It is asked for each job, and so only counts.
func (n *Host) hasMore(t *table.Table) bool {
	count, err := sysfs.CountVerbs(n.Sys)
	return err == nil && count > len(t.HCAs)
}

// look adds the HCAs that the node has and the table does not know. They come
// after those that it knows, whose numbers must stay; names need not.
func (n *Host) look(t *table.Table) error {
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return err
	}
	defer v.Close()
	devices, err := v.Devices()
	if err != nil {
		return err
	}
	for _, d := range devices {
		if i := slices.IndexFunc(t.HCAs, func(h node.HCA) bool { return h.ID == d.ID }); i >= 0 {
			t.HCAs[i].Name = d.Name // it may have another by now
			continue
		}
		ports, err := v.Ports(d)
		if err != nil {
			return fmt.Errorf("look at %s: %w", d.Name, err)
		}
		t.HCAs = append(t.HCAs, d.HCA(ports))
	}
	return nil
}

// pin is the mapping, of which the table has all: an index that a source takes from
// it means the same HCA when it is claimed, though others may have come meanwhile. Nobody
// is waited for where the table has all already.
func (n *Host) pin(ctx context.Context, mapped func(*table.Table) (gres.Mapping, error)) (m gres.Mapping, err error) {
	t, err := n.table().Read()
	if err != nil {
		return nil, err
	}
	known := slices.Clone(t.HCAs)
	if m, err = mapped(&t); err != nil || len(t.HCAs) == len(known) {
		return m, err
	}
	err = n.table().Update(ctx, func(now *table.Table) error {
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
