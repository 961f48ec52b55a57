package host

import (
	"fmt"
	"slices"

	"gresnet/lib/gres"
	"gresnet/lib/node"
	"gresnet/lib/scan"
	"gresnet/lib/sysfs"
	"gresnet/lib/table"
)

// Mapping is the GRES mapping: as fixed for this boot, or as the node is now
// if no lease was ever taken, or there is what was not there then.
func (n *Host) Mapping() (gres.Mapping, error) {
	t, err := n.Table().Read()
	if err != nil {
		return nil, err
	}
	return n.Mapped(&t)
}

// Mapped is the mapping by a table, to which what it does not know is added.
func (n *Host) Mapped(t *table.Table) (gres.Mapping, error) {
	m, err := gres.Map(n.Config, t.HCAs)
	if err == nil && m.Drift() == nil && len(m) > 0 && !n.hasMore(t) {
		return m, nil
	}
	if err := n.AddHCAs(t); err != nil {
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

// AddHCAs adds the HCAs that the node has and the table does not know. They come
// after those that it knows, whose numbers must stay; names need not.
func (n *Host) AddHCAs(t *table.Table) error {
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

// Known is the node table with what the node has besides, as the next claim
// would write it.
func (n *Host) Known() (table.Table, error) {
	t, err := n.Table().Read()
	if err != nil {
		return table.Table{}, err
	}
	err = n.AddHCAs(&t)
	return t, err
}
