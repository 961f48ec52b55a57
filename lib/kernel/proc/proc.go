// Package proc looks at the node's processes: whether a job still runs here, who is inside its network
// namespace. It asks neither Slurm's daemons nor its files, whose places a site chooses. A look at all
// processes is as long as users like, so a process of its own does it, for a bounded time.
package proc

import (
	"fmt"

	"gresnet/lib/base/plain"
)

// Process is a process of the node.
type Process struct {
	PID  int    `json:"pid"`  // its id
	Name string `json:"name"` // its name, as ps shows it
}

func (p Process) String() string { return fmt.Sprintf("%s (pid %d)", plain.Name(p.Name), p.PID) }
