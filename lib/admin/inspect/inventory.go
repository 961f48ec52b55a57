package inspect

import (
	"slices"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/scan"
	"gresnet/lib/lease/host"
	"gresnet/lib/state/table"
)

// Inventory makes an inventory of the node as a prolog would meet it now, and changes
// nothing. drift is why the mapping does not hold: it then lacks GRES.
func Inventory(n *host.Host) (s report.Scan, drift error, err error) {
	t, err := n.Known()
	if err != nil {
		return report.Scan{}, nil, err
	}
	return inventoryOf(n, t, func(node.HCA) bool { return false })
}

// inventoryOf returns the inventory of a table, with a mapping that lacks some HCAs.
func inventoryOf(n *host.Host, t table.Table, lacks func(node.HCA) bool) (s report.Scan, drift error, err error) {
	top, err := n.Topology(t.HCAs)
	if err != nil {
		return report.Scan{}, nil, err
	}
	m, drift := n.Map(slices.DeleteFunc(slices.Clone(t.HCAs), lacks))
	if drift == nil {
		if m, err = top.Serve(m, nil); err != nil {
			return report.Scan{}, nil, err
		}
		drift = m.Drift()
	}
	v, err := scan.Open(n.Sys, scan.NewKnown())
	if err != nil {
		return report.Scan{}, nil, err
	}
	defer v.Close()
	s, err = take(v, n.Sys, input{Table: t, Mapping: m, Topology: top})
	if err != nil {
		return report.Scan{}, nil, err
	}
	s.Parts = splitting(n.Config)
	return s, drift, nil
}

// splitting returns the tables by which jobs get PFs in parts.
func splitting(c config.Config) []config.HCA {
	return slices.DeleteFunc(slices.Clone(c.HCAs), func(h config.HCA) bool { return !h.Kind().Splits() })
}
