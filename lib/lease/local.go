package lease

import (
	"gresnet/lib/gres"
	"gresnet/lib/job"
	"gresnet/lib/node"
	"gresnet/lib/sysfs"
)

// local is what a source may want to know of the node.
func (n *Node) local(j job.Job) gres.Local {
	return gres.Local{
		Mapping: func() (gres.Mapping, error) {
			m, err := n.mapping()
			if err != nil {
				return nil, err
			}
			t, err := n.topology(m)
			if err != nil {
				return nil, err
			}
			return t.Serve(m, j.GPUs)
		},
		CPUs: func() (int, error) { return sysfs.CPUs(n.Sys) },
	}
}

// topology is where the node's GPUs and a mapping's HCAs sit.
func (n *Node) topology(m gres.Mapping) (gres.Topology, error) {
	gpus, err := sysfs.GPUs(n.Sys, n.Proc)
	if err != nil {
		return gres.Topology{}, err
	}
	t := gres.Topology{GPUs: gpus, HCAs: map[node.ID]node.Seat{}}
	for _, e := range m {
		if e.HCA.ID.PCI == "" {
			continue
		}
		if t.HCAs[e.HCA.ID], err = sysfs.Seat(n.Sys, e.HCA.ID.PCI); err != nil {
			return gres.Topology{}, err
		}
	}
	return t, nil
}

// near compares HCAs by how near they are to a job's GPUs; nil if it has none.
func (n *Node) near(j job.Job, m gres.Mapping) (func(a, b node.ID) int, error) {
	if len(j.GPUs) == 0 {
		return nil, nil
	}
	t, err := n.topology(m)
	return t.Near(j.GPUs), err
}
