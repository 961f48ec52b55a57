package inspect

import (
	"context"
	"fmt"
	"strings"

	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/step"
	"gresnet/lib/state/table"
)

// Refusal is why a prolog fails that is to give an HCA to a job.
type Refusal struct {
	Entry gres.Entry
	Err   error
}

// Refusals returns why a prolog would fail, of all HCAs of the mapping that no job has. unknown is
// what cannot be told of the addresses that are reserved for the host.
func Refusals(ctx context.Context, n *host.Host) (list []Refusal, unknown []error, err error) {
	t, err := n.Known()
	if err != nil {
		return nil, nil, err
	}
	m, err := n.Map(t.HCAs)
	if err != nil {
		return nil, nil, err
	}
	return refusals(ctx, n, &t, m)
}

func refusals(ctx context.Context, n *host.Host, t *table.Table, m gres.Mapping) (list []Refusal, unknown []error, err error) {
	l, done, err := n.LookFor(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	unknown = l.FindLifelines(ctx)
	err = l.World.OnHost(func(v *scan.View) error {
		mode, err := v.Mode()
		if err != nil {
			return err
		}
		return v.Link.Once(func() error {
			for _, e := range m {
				if _, held := t.Holder(e.HCA.ID); held || e.Drift != nil {
					continue
				}
				if e.Slot != nil && e.Slot.Number > 0 && e.Slot.Number < e.Slot.Of-1 {
					continue // what holds for the first and the last slot holds for those between
				}
				e.Keep = e.Keep || n.Config.MovesNothing()
				h, err := l.ReadHCA(v, mode, e, false)
				if err == nil {
					err = l.Apart(v, []step.HCA{h})
				}
				if err != nil {
					list = append(list, Refusal{Entry: e, Err: err})
				}
			}
			return nil
		})
	})
	return list, unknown, err
}

// Proposal makes an inventory of the node for a person who is about to list its HCAs: those that
// no job would get are marked, such as those that are reserved for the host. Where the site
// lists none yet, they are not numbered, and serve no GPU.
func Proposal(ctx context.Context, n *host.Host) (s report.Scan, drift error, err error) {
	t, err := n.Known()
	if err != nil {
		return report.Scan{}, nil, err
	}
	refused, err := refused(ctx, n, &t)
	if err != nil {
		return report.Scan{}, nil, err
	}
	s, drift, err = inventoryOf(n, t, func(h node.HCA) bool {
		_, is := refused[h.ID]
		return is && len(n.Config.HCAs) == 0
	})
	if err != nil {
		return report.Scan{}, nil, err
	}
	for i, h := range s.HCAs {
		s.HCAs[i].Refused = refused[h.ID]
	}
	return s, drift, nil
}

// refused says why no job would get some of the node's HCAs, listed or not.
func refused(ctx context.Context, n *host.Host, t *table.Table) (map[node.ID]string, error) {
	m, err := n.Map(t.HCAs)
	if err != nil {
		return nil, err
	}
	why := map[node.ID]string{}
	for _, h := range t.HCAs {
		switch {
		case m.Has(h.ID) && len(n.Config.HCAs) > 0:
		case h.ID.PCI != "" && sysfs.ManagesSwitches(n.Sys, h.ID.PCI):
			why[h.ID] = "Fabric Manager manages the node's NVSwitches by it"
		case m.Has(h.ID):
		case h.ID.IsSubfunction():
			why[h.ID] = fmt.Sprintf("it is the subfunction %s of %s, which jobs get only where [[hca]] lists it", h.ID.Aux, h.ID.PCI)
		case h.ID.Kind().Splits():
			why[h.ID] = fmt.Sprintf("jobs get %ss only where [[hca]] lists them, and its PF %s does not", h.ID.Kind().Title, h.ID.PCI)
		default:
			m = append(m, gres.Entry{HCA: h})
		}
	}
	list, _, err := refusals(ctx, n, t, m)
	if err != nil {
		return nil, err
	}
	for _, r := range list {
		why[r.Entry.HCA.ID] = strings.ReplaceAll(r.Err.Error(), "\n", "; ")
	}
	return why, nil
}
