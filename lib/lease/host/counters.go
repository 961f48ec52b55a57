package host

import (
	"slices"
	"time"

	"gresnet/lib/base/config"
	"gresnet/lib/base/node"
	"gresnet/lib/base/poll"
	"gresnet/lib/hca/counters"
	"gresnet/lib/hca/scan"
	"gresnet/lib/kernel/rdma"
	"gresnet/lib/lease/step"
)

// tellsTraffic tells whether anybody wants to know what ports count for jobs.
func (n *Host) tellsTraffic() bool {
	return len(n.Config.Health.Counters()) > 0 || n.Config.Accounting.File != "" || n.Config.Metrics.File != "" || n.Config.Log.Level != config.LogWarnings
}

// readCounters fills in what the ports of HCAs have counted before a job has them. Nothing that
// goes wrong with it is the job's.
func (l *Look) readCounters(v *scan.View, hcas []step.HCA) {
	if !l.Host.tellsTraffic() {
		return
	}
	// The jobs with slots of a port share what it counts.
	hcas = slices.DeleteFunc(slices.Clone(hcas), func(h step.HCA) bool { return h.ID.IsSlot() })
	if len(hcas) == 0 {
		return
	}
	var folders []string
	for _, h := range hcas {
		folder := v.Folder(h.Name)
		if folder == "" {
			return
		}
		folders = append(folders, folder)
	}
	reading, err := counters.Begin(folders, l.Host.Config.Health.Counters())
	if err == nil {
		var all [][]counters.Port
		all, err = reading.End(time.Now().Add(poll.Counters))
		for i, ports := range all {
			hcas[i].Access.Counters = ports
		}
	}
	if err != nil {
		l.Host.Notice(l.World.Job, "%s", err)
	}
}

// Traffic is a reading of what HCAs carried for a job.
type Traffic struct {
	look    *Look
	reading counters.Reading
	steps   []*step.Access // in the order of the reading
}

// BeginTraffic begins to read what the HCAs of a lease have counted, wherever they are. It is
// for the moment before they leave the job. Where the programs that use them have ended, nothing
// but the node's own messages is counted after that.
func (l *Look) BeginTraffic(steps []*step.Access) *Traffic {
	t := &Traffic{look: l}
	steps = slices.DeleteFunc(steps, func(a *step.Access) bool { return len(a.Counters) == 0 })
	if len(steps) == 0 {
		return t
	}
	var folders []string
	look := func(v *scan.View) error {
		for _, a := range steps {
			if slices.Contains(t.steps, a) {
				continue
			}
			d, err := v.Glance(a.ID)
			if err != nil {
				continue // it is elsewhere, or gone
			}
			if folder := v.Folder(d.Name); folder != "" {
				folders, t.steps = append(folders, folder), append(t.steps, a)
			}
		}
		return nil
	}
	// The job first, which in exclusive mode has them; what came back already is on the node.
	_ = l.World.WithHCAs(l.mode(), look)
	err := l.World.OnHost(look)
	if err == nil {
		t.reading, err = counters.Begin(folders, l.Host.Config.Health.Counters())
	}
	if err != nil {
		l.Host.Notice(l.World.Job, "%s", err)
		t.steps = nil
	}
	return t
}

// mode is the node's, or the shared one if that is not known: then the job is not looked at.
func (l *Look) mode() (mode rdma.Mode) {
	_ = l.World.OnHost(func(v *scan.View) (err error) {
		mode, err = v.Mode()
		return err
	})
	if mode == "" {
		return rdma.Shared
	}
	return mode
}

// End returns what was read in time.
func (t *Traffic) End() map[node.ID][]counters.Traffic {
	if len(t.steps) == 0 {
		return nil
	}
	all, err := t.reading.End(time.Now().Add(poll.Counters))
	if err != nil {
		t.look.Host.Notice(t.look.World.Job, "%s", err)
	}
	carried := map[node.ID][]counters.Traffic{}
	for i, a := range t.steps {
		carried[a.ID] = counters.Between(a.Counters, all[i])
	}
	return carried
}
