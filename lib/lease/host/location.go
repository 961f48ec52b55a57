package host

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"

	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
	"gresnet/lib/hca/gres"
	"gresnet/lib/hca/source"
	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/lease/step"
	"gresnet/lib/slurm"
)

// Local is what a source may want to know of the node, whose mapping is asked for.
func (n *Host) Local(mapping func() (gres.Mapping, error)) source.Local {
	return source.Local{
		Mapping: func(gpus []int) (gres.Mapping, error) {
			m, err := mapping()
			if err != nil || m.Names(gpus) {
				return m, err
			}
			t, err := n.Topology(m.HCAs())
			if err != nil {
				return nil, err
			}
			return t.Serve(m, gpus)
		},
		CPUs:    func() (int, error) { return sysfs.CPUs(n.Sys) },
		Threads: func() (int, error) { return sysfs.Threads(n.Sys) },
		Conf:    func() (slurm.Conf, error) { return slurm.Read(n.Files, n.Slurm.Conf) },
	}
}

// Topology is where the node's GPUs and some HCAs are.
func (n *Host) Topology(hcas []node.HCA) (t gres.Topology, err error) {
	have, err := sysfs.GPUs(n.Sys, n.Proc)
	if err != nil {
		return gres.Topology{}, err
	}
	t.GPUs, t.Unknown = n.gpus.Order(have, n.Files, n.Slurm.Conf, n.Slurm.Name)
	t.HCAs, err = n.locations(hcas)
	return t, err
}

// locations are where HCAs are, of those that are on PCI.
func (n *Host) locations(hcas []node.HCA) (map[node.ID]node.Location, error) {
	locations := map[node.ID]node.Location{}
	for _, h := range hcas {
		if h.ID.PCI == "" {
			continue
		}
		at, err := sysfs.Locate(n.Sys, h.ID.PCI)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was pulled out, or its slot is off: whoever claims it will find out
		}
		if err != nil {
			return nil, err
		}
		locations[h.ID] = at
	}
	return locations, nil
}

// locate says of what a job gets where it is, and which of the job's GPUs is
// near. GPUs are dealt out over all of the node's HCAs, see gres.Topology.Serve.
func (n *Host) locate(j job.Job, p Picked, hcas []step.HCA) error {
	m, t, err := n.surroundings(j, p)
	if err != nil {
		return err
	}
	for i, h := range hcas {
		hcas[i].NUMA, hcas[i].GPU = -1, -1
		if at, known := t.HCAs[h.ID]; known {
			hcas[i].NUMA = at.NUMA
		}
		if k := slices.IndexFunc(m, func(e gres.Entry) bool { return e.HCA.ID == h.ID }); k >= 0 {
			hcas[i].GPU = t.Nearest(m[k], j.GPUs)
		}
	}
	return nil
}

// surroundings returns the node's HCAs and GPUs, and where they sit. For a job without
// GPUs it looks at the job's HCAs alone.
func (n *Host) surroundings(j job.Job, p Picked) (m gres.Mapping, t gres.Topology, err error) {
	if len(j.GPUs) == 0 {
		t.HCAs, err = n.locations(gres.Mapping(p.Entries).HCAs())
		return nil, t, err
	}
	m, err = p.topology.Serve(p.mapping, nil)
	return m, p.topology, err
}

// near compares HCAs by how near they are to a job's GPUs, and then to its cores, by what
// of the node is looked at for it; nil if neither are known.
func (n *Host) near(j job.Job, m gres.Mapping, wants []gres.Want) (near func(a, b node.ID) int, t gres.Topology, err error) {
	var cores []int
	for _, w := range wants {
		cores = append(cores, w.Cores...)
	}
	switch {
	case len(j.GPUs) > 0:
		if t, err = n.Topology(m.HCAs()); err != nil {
			return nil, gres.Topology{}, err
		}
		byGPUs, byCores := t.Near(j.GPUs), n.nearCores(j, t, cores)
		return func(a, b node.ID) int { return cmp.Or(byGPUs(a, b), byCores(a, b)) }, t, nil
	case len(cores) > 0:
		if t.HCAs, err = n.locations(m.HCAs()); err != nil {
			return nil, gres.Topology{}, err
		}
		return n.nearCores(j, t, cores), t, nil
	}
	return nil, gres.Topology{}, nil
}

// nearCores looks for the cores of the NUMA nodes that HCAs are on. A job whose cores
// cannot be found gets its HCAs all the same.
func (n *Host) nearCores(j job.Job, t gres.Topology, has []int) func(a, b node.ID) int {
	var numas []int
	for _, at := range t.HCAs {
		if at.NUMA >= 0 && !slices.Contains(numas, at.NUMA) {
			numas = append(numas, at.NUMA)
		}
	}
	if len(has) == 0 || len(numas) < 2 {
		return func(node.ID, node.ID) int { return 0 } // none is nearer than another one
	}
	cores, err := sysfs.Cores(n.Sys, numas...)
	if err != nil {
		n.Notice(j.ID, "HCAs are chosen without regard to the job's CPUs: %s", err)
	}
	return t.NearCores(has, cores)
}
