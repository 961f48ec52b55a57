package lease

import (
	"gresnet/lib/gres"
	"gresnet/lib/sysfs"
)

// local is what a source may want to know of the node.
func (n *Node) local() gres.Local {
	return gres.Local{
		Mapping: n.mapping,
		CPUs:    func() (int, error) { return sysfs.CPUs(n.Sys) },
	}
}
