package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gresnet/lib/hca/gpu"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/machine"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/host"
	"gresnet/lib/state/table"
	"gresnet/lib/words/config"
	"gresnet/lib/words/hint"
	"gresnet/lib/words/indices"
	"gresnet/lib/words/job"
	"gresnet/lib/words/node"
)

// Layout is a node that is not there: a machine's layout, and a site's configuration.
type Layout struct {
	cfg     config.Config
	jobs    []machine.Job
	hcas    []node.HCA
	mapping gres.Mapping
	top     gres.Topology
	Drift   error // why the mapping does not hold
}

// Lay has a machine as a site has configured it. Slurm numbers its GPUs by their PCI addresses, as its AutoDetect for
// NVIDIA's and AMD's does. HCAs with a flag are jobs' only where [[hca]] lists them.
func Lay(m machine.Machine, cfg config.Config) (*Layout, error) {
	l := &Layout{cfg: cfg, jobs: m.Jobs, top: gres.Topology{HCAs: map[node.ID]node.Location{}}}
	var free []node.HCA
	for _, h := range m.HCAs {
		l.hcas = append(l.hcas, h.HCA)
		l.top.HCAs[h.ID] = h.At
		if h.ForJobs() || len(cfg.HCAs) > 0 {
			free = append(free, h.HCA)
		}
	}
	byID := func(a, b node.HCA) int { return node.Compare(a.ID, b.ID) }
	slices.SortFunc(l.hcas, byID)
	slices.SortFunc(free, byID)
	var have []sysfs.GPU
	for _, g := range m.GPUs {
		have = append(have, sysfs.GPU{Location: g.Location, Minor: g.Minor})
	}
	sysfs.SortGPUs(have)
	var err error
	if l.top.GPUs, err = (gpu.Slurm{}).Order(have); err != nil {
		return nil, err
	}
	l.mapping, l.Drift = gres.Map(cfg, free)
	if l.Drift == nil {
		if l.mapping, err = l.top.Serve(l.mapping, nil); err != nil {
			return nil, err
		}
		l.Drift = l.mapping.Drift()
	}
	return l, nil
}

// Scan makes the inventory.
func (l *Layout) Scan() report.Scan {
	s := report.Scan{HCAs: []report.HCA{}}
	for _, g := range l.top.GPUs {
		s.GPUs = append(s.GPUs, report.GPU{PCI: g.PCI, NUMA: g.NUMA})
	}
	n := input{Table: table.Table{HCAs: l.hcas}, Mapping: l.mapping, Topology: l.top}
	for _, h := range l.hcas {
		s.HCAs = append(s.HCAs, n.inSlots(n.describe(h))...)
	}
	return s
}

// Plan returns which HCAs a job would get if no other job had any. Without wants it is a job that has GPUs.
func (l *Layout) Plan(ctx context.Context, j job.Job, wants []gres.Want) (*report.Plan, error) {
	d := &report.Plan{HCAs: []report.HCA{}, Steps: []report.Step{}}
	if len(wants) == 0 {
		cfg := l.cfg
		cfg.Slurm.Source = []string{config.GPU}
		local := source.Local{Mapping: func(gpus []int) (gres.Mapping, error) { return l.top.Serve(l.mapping, gpus) }}
		var err error
		if wants, d.Notes, err = source.Ask(ctx, j, cfg, local); err != nil {
			return nil, err
		}
	}
	if len(wants) == 0 {
		return d, nil
	}
	nobody := func(node.ID) (gres.Holder, bool) { return gres.Holder{}, false }
	entries, err := gres.Choose(wants, l.mapping, nobody, l.top.Near(j.GPUs))
	for _, e := range entries {
		h := report.Bare(e.HCA.Name, e.HCA.ID)
		h.Have(e.Gres, e.Type, e.Index)
		h.Part = e.Part
		d.HCAs = append(d.HCAs, h)
	}
	return d, err
}

// Check holds what jobs would get against what the layout says that they get.
func (l *Layout) Check(ctx context.Context) (all []report.Finding) {
	for _, j := range l.jobs {
		about := "job " + indices.Format(j.GPUs)
		got, err := l.gets(ctx, j.GPUs)
		if want := slices.Sorted(slices.Values(j.HCAs)); err == nil && !slices.Equal(got, want) {
			err = hint.With(fmt.Errorf("it gets %s, and the layout says %s", names(got), names(want)),
				"GN787 correct the layout, or say gpus = in the [[hca]] entries")
		}
		f := report.Finding{Level: "ok", About: about, Text: "it gets " + names(got)}
		if err != nil {
			f = report.Finding{Level: "error", About: about, Text: err.Error(), Do: hint.Of(err), ID: hint.ID(err)}
		}
		all = append(all, f)
	}
	return all
}

// gets returns the names of the HCAs that a job with GPUs gets.
func (l *Layout) gets(ctx context.Context, gpus []int) (list []string, err error) {
	d, err := l.Plan(ctx, job.Job{ID: 1, GPUs: gpus}, nil)
	if err != nil {
		return nil, err
	}
	for _, h := range d.HCAs {
		list = append(list, h.Name)
	}
	slices.Sort(list)
	return list, nil
}

func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// Capture makes a layout of the node: no serial numbers, no GUIDs, no addresses of networks. What jobs get of it stands
// there, too: whoever knows better corrects that.
func Capture(ctx context.Context, n *host.Host, from string) (m machine.Machine, err error) {
	s, _, err := Proposal(ctx, n)
	if err != nil {
		return machine.Machine{}, err
	}
	gpus, err := sysfs.GPUs(n.Sys, n.Proc)
	if err != nil {
		return machine.Machine{}, err
	}
	m = machine.Machine{Source: from, Vendor: "amd", Far: map[int][]int{}}
	for i, g := range gpus {
		if g.Minor < 0 {
			g.Minor = i
		}
		if len(g.Files) > 0 && strings.HasPrefix(g.Files[0], "/dev/nvidia") {
			m.Vendor = "nvidia"
		}
		m.GPUs = append(m.GPUs, machine.GPU{Minor: g.Minor, Location: g.Location})
		m.Note(g.Location)
	}
	for _, h := range s.HCAs {
		if h.ID.PCI == "" || h.ID.VF != "" || slices.ContainsFunc(m.HCAs, func(o machine.HCA) bool { return o.ID.PCI == h.ID.PCI }) {
			continue
		}
		at, err := sysfs.Locate(n.Sys, h.ID.PCI)
		if err != nil {
			return machine.Machine{}, err
		}
		c := machine.HCA{HCA: node.HCA{Name: h.Name, ID: node.ID{PCI: h.ID.PCI}, Driver: h.Driver}, At: at}
		for _, p := range h.Ports {
			c.Ports = append(c.Ports, node.Port{Num: p.Num, LinkLayer: p.LinkLayer, State: p.State, Interface: p.Interface})
		}
		switch {
		case h.Refused != "" && sysfs.ManagesSwitches(n.Sys, h.ID.PCI):
			c.Flag = machine.Switches
		case h.Refused != "":
			c.Flag = machine.Management
		}
		m.HCAs = append(m.HCAs, c)
		m.Note(at)
	}
	l, err := Lay(m, config.Default())
	if err != nil {
		return m, err
	}
	for _, job := range machine.Shapes(len(gpus)) {
		hcas, err := l.gets(ctx, job)
		if err != nil {
			return m, err
		}
		m.Jobs = append(m.Jobs, machine.Job{GPUs: job, HCAs: hcas})
	}
	return m, nil
}
