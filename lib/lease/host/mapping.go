package host

import (
	"fmt"
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/state/table"
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
	m, err := n.Map(t.HCAs)
	if err == nil && m.Drift() == nil && len(m) > 0 && !n.hasMore(t) && !slices.ContainsFunc(t.HCAs, isUnknown) {
		return m, nil
	}
	if err := n.AddHCAs(t); err != nil {
		return nil, err
	}
	return n.Map(t.HCAs)
}

// Map maps what the node has as the configuration says, and as its RDMA netns mode lets.
func (n *Host) Map(have []node.HCA) (gres.Mapping, error) {
	m, err := gres.Map(n.Config, have)
	if err != nil || !slices.ContainsFunc(m, func(e gres.Entry) bool { return e.Kind().WholeIfOne }) {
		return m, err
	}
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return nil, err
	}
	defer v.Close()
	mode, err := v.Mode()
	if err == nil && mode == rdma.Exclusive {
		m = m.InExclusiveMode()
	}
	return m, err
}

// hasMore tells whether the node has more HCAs than a table, as where a driver was
// slower at boot than the first job. It is asked for each job, and so only counts, unless
// there are VFs.
func (n *Host) hasMore(t *table.Table) bool {
	count, err := sysfs.CountVerbs(n.Sys)
	if err != nil || count <= len(t.HCAs) {
		return false
	}
	all, err := sysfs.AllVerbs(n.Sys)
	if err != nil {
		return false
	}
	count = 0
	for _, owner := range all {
		// Who lists HCAs by their GUIDs finds a VF that is new when he looks for it.
		h, err := sysfs.HCA(n.Sys, owner.Device, "", owner.Address)
		if err == nil && n.uses(h) {
			count++
		}
	}
	return count > len(t.HCAs)
}

// uses tells whether jobs may get an HCA of the node, as far as its kind tells: parts are only for
// a site that lists them. A table without one can be read by programs that know no VFs.
func (n *Host) uses(h node.HCA) bool {
	return !h.ID.Kind().Splits() || slices.ContainsFunc(n.Config.HCAs, func(c config.HCA) bool { return c.Gives(h) })
}

// isUnknown tells whether the table has an HCA's number alone: what it said of the HCA did not read.
func isUnknown(h node.HCA) bool { return h.Name == "" }

// AddHCAs adds the HCAs that jobs may get, and the table does not know. They come
// after those that it knows, whose numbers must stay; names need not.
func (n *Host) AddHCAs(t *table.Table) error { return n.add(t, n.uses) }

func (n *Host) add(t *table.Table, wanted func(node.HCA) bool) error {
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return err
	}
	defer v.Close()
	devices, err := v.Devices()
	if err != nil {
		return err
	}
	seen := map[node.ID]bool{}
	for _, d := range devices {
		if seen[d.ID] {
			continue // the two cannot be told apart, and no job gets one
		}
		seen[d.ID] = true
		i := slices.IndexFunc(t.HCAs, func(h node.HCA) bool { return h.ID == d.ID })
		if i >= 0 && !isUnknown(t.HCAs[i]) {
			// It may have others by now.
			t.HCAs[i].Name, t.HCAs[i].GUID, t.HCAs[i].Function = d.Name, d.GUID, d.Function
			continue
		}
		if i < 0 && !wanted(d.HCA(nil)) {
			continue
		}
		ports, err := v.Ports(d)
		if err != nil {
			return fmt.Errorf("look at %s: %w", d.Name, err)
		}
		if i >= 0 {
			t.HCAs[i] = d.HCA(ports)
			continue
		}
		t.HCAs = append(t.HCAs, d.HCA(ports))
	}
	return nil
}

// Known is the node table with all that the node has besides: what the next claim would add, and
// VFs that no job gets.
func (n *Host) Known() (table.Table, error) {
	t, err := n.Table().Read()
	if err != nil {
		return table.Table{}, err
	}
	err = n.add(&t, func(node.HCA) bool { return true })
	return t, err
}
