package lease

import (
	"errors"
	"io/fs"

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
			t, err := n.topology(m.HCAs())
			if err != nil {
				return nil, err
			}
			return t.Serve(m, j.GPUs)
		},
		CPUs: func() (int, error) { return sysfs.CPUs(n.Sys) },
	}
}

// topology is where the node's GPUs and some HCAs sit.
func (n *Node) topology(hcas []node.HCA) (gres.Topology, error) {
	gpus, err := sysfs.GPUs(n.Sys, n.Proc)
	if err != nil {
		return gres.Topology{}, err
	}
	t := gres.Topology{GPUs: gpus, HCAs: map[node.ID]node.Seat{}}
	for _, h := range hcas {
		if h.ID.PCI == "" {
			continue
		}
		seat, err := sysfs.Seat(n.Sys, h.ID.PCI)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was pulled out, or its slot is off: whoever claims it will find out
		}
		if err != nil {
			return gres.Topology{}, err
		}
		t.HCAs[h.ID] = seat
	}
	return t, nil
}

// near compares HCAs by how near they are to a job's GPUs; nil if it has none.
func (n *Node) near(j job.Job, m gres.Mapping) (func(a, b node.ID) int, error) {
	if len(j.GPUs) == 0 {
		return nil, nil
	}
	t, err := n.topology(m.HCAs())
	return t.Near(j.GPUs), err
}
