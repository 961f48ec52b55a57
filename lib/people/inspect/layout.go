package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gresnet/lib/hca/gpu"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/machine"
	"gresnet/lib/hca/report"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/host"
	"gresnet/lib/lease/part"
	"gresnet/lib/link"
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
	machine machine.Machine
	hcas    []node.HCA // with the VFs that gresnet makes when the node boots
	mapping gres.Mapping
	top     gres.Topology
	Drift   error // why the mapping does not hold
}

// Lay has a machine as a site has configured it. Slurm numbers its GPUs by their PCI addresses, as its AutoDetect for
// NVIDIA's and AMD's does. HCAs that the node needs, bonds' and VFs are jobs' only where [[hca]] lists them.
func Lay(m machine.Machine, cfg config.Config) (*Layout, error) {
	l := &Layout{cfg: cfg, machine: m, top: gres.Topology{HCAs: map[node.ID]node.Location{}}}
	made, err := makeVFs(m, cfg)
	if err != nil {
		return nil, err
	}
	l.machine.HCAs = slices.Concat(m.HCAs, made)
	var free []node.HCA
	for _, h := range l.machine.HCAs {
		l.hcas = append(l.hcas, h.HCA)
		l.top.HCAs[h.ID] = h.At
		if h.Refused() == "" || len(cfg.HCAs) > 0 {
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

// makeVFs returns the VFs that gresnet would make on a machine when it boots.
func makeVFs(m machine.Machine, cfg config.Config) (made []machine.HCA, err error) {
	for _, want := range cfg.HCAs {
		i := slices.IndexFunc(m.HCAs, func(h machine.HCA) bool { return want.Kind().Has("vf") && want.Splits(h.ID) })
		if i < 0 {
			continue
		}
		pf := m.HCAs[i]
		if pf.VFs == nil {
			return nil, hint.With(fmt.Errorf("split %s: the layout does not say how many VFs it can have", pf.Name), "GN810 write vfs=0/16 at the end of its line")
		}
		for number := range min(want.Count, pf.VFs.Most) {
			vf := node.HCA{ID: node.ID{PCI: pf.ID.PCI, VF: strconv.Itoa(number)}, Name: fmt.Sprintf("%sv%d", pf.Name, number), Driver: pf.Driver}
			is := func(h machine.HCA) bool { return h.ID == vf.ID }
			if pf.VFs.Now == 0 && !slices.ContainsFunc(m.HCAs, is) {
				made = append(made, machine.HCA{HCA: vf, At: pf.At})
			}
		}
	}
	return made, nil
}

// of returns an HCA of the layout.
func (l *Layout) of(id node.ID) machine.HCA {
	i := slices.IndexFunc(l.machine.HCAs, func(h machine.HCA) bool { return h.ID == id.Whole() })
	return l.machine.HCAs[i]
}

// Scan makes the inventory.
func (l *Layout) Scan() report.Scan {
	s := report.Scan{HCAs: []report.HCA{}}
	for _, g := range l.top.GPUs {
		s.GPUs = append(s.GPUs, report.GPU{PCI: g.PCI, NUMA: g.NUMA})
	}
	s.Parts = splitting(l.cfg)
	n := input{Table: table.Table{HCAs: l.hcas}, Mapping: l.mapping, Topology: l.top}
	for _, known := range l.hcas {
		h, of := n.describe(known), l.of(known.ID)
		if vfs := of.VFs; vfs != nil {
			h.VFs = &report.VFs{Now: vfs.Now, Total: vfs.Most, Switchdev: vfs.Switchdev}
		}
		if len(l.cfg.HCAs) == 0 {
			h.Refused = of.Refused()
		}
		s.HCAs = append(s.HCAs, n.inSlots(h)...)
	}
	return s
}

// Refusals returns why a prolog would fail, as far as link layers and bonds say.
func (l *Layout) Refusals() (list []Refusal) {
	for _, e := range l.mapping {
		if e.Drift != nil || e.Slot != nil && e.Slot.Number > 0 {
			continue // what holds for the first slot holds for the others
		}
		if err := l.refuse(e); err != nil {
			list = append(list, Refusal{Entry: e, Err: err})
		}
	}
	return list
}

// refuse says why no job can have what an entry means; nil: jobs can have it.
func (l *Layout) refuse(e gres.Entry) error {
	h := l.of(e.HCA.ID)
	for _, p := range h.Ports {
		switch {
		case p.Interface == "" || l.cfg.MovesNothing():
		case e.Slot != nil:
			if err := l.refuseSlot(e, h, p); err != nil {
				return err
			}
		case h.Bond != "" && !e.Keep:
			return link.RefuseMaster(p.Interface, "bond", h.Bond)
		}
	}
	return nil
}

// refuseSlot says why no slot of an HCA has an interface on that of a port.
func (l *Layout) refuseSlot(e gres.Entry, h machine.HCA, p node.Port) error {
	if !e.Kind().OnEthernet {
		return nil
	}
	for _, other := range l.machine.HCAs {
		if h.Bond != "" && other.Bond == h.Bond && other.ID != h.ID {
			return part.RefuseBond(h.Name, other.Name, h.Bond)
		}
	}
	return part.RefuseLayer(p.Interface, p.LinkLayer, e.Part)
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
		if why := l.refuse(e); why != nil {
			return nil, fmt.Errorf("give %s to a job: %w", e.HCA.Name, why)
		}
		h := report.Bare(e.HCA.Name, e.HCA.ID)
		h.Have(e.Gres, e.Type, e.Index)
		h.Part = e.Part
		d.HCAs = append(d.HCAs, h)
	}
	return d, err
}

// Check holds what jobs would get against what the layout says that they get.
func (l *Layout) Check(ctx context.Context) (all []report.Finding) {
	for _, j := range l.machine.Jobs {
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
		if h.ID.PCI == "" || h.ID.IsSlot() && h.ID.Slot != "0" {
			continue
		}
		c, err := captureHCA(n, h)
		if err != nil {
			return machine.Machine{}, err
		}
		m.HCAs = append(m.HCAs, c)
		m.Note(c.At)
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

// captureHCA returns an HCA for a layout.
func captureHCA(n *host.Host, h report.HCA) (c machine.HCA, err error) {
	id := node.ID{PCI: h.ID.PCI, VF: h.ID.VF, Aux: h.ID.Aux}
	c = machine.HCA{HCA: node.HCA{Name: h.Name, ID: id, Driver: h.Driver, Function: h.Function}}
	if c.At, err = sysfs.Locate(n.Sys, c.PCI()); err != nil {
		return c, err
	}
	for _, p := range h.Ports {
		c.Ports = append(c.Ports, node.Port{Num: p.Num, LinkLayer: p.LinkLayer, State: p.State, Interface: p.Interface})
		if bond := sysfs.Bond(n.Sys, p.Interface); bond != "" {
			c.Bond = bond
		}
	}
	if v := h.VFs; v != nil {
		c.VFs = &machine.VFs{Now: v.Now, Most: v.Total, Switchdev: v.Switchdev}
	}
	switch {
	case h.Refused == "" || c.Refused() != "":
	case sysfs.ManagesSwitches(n.Sys, h.ID.PCI):
		c.Flag = machine.Switches
	default:
		c.Flag = machine.Management
	}
	return c, nil
}
