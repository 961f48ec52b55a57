package config

import (
	"time"
)

// Whose fault it is if a program of [hooks] fails.
const (
	FaultJob  = "job"
	FaultNode = "node"
)

// Hooks is the table [hooks]: programs of the site's that run in a job's network.
type Hooks struct {
	Ready, Leave string // paths; empty: there is none
	Timeout      time.Duration
	Fault        string // FaultJob or FaultNode
}

func (h *Hooks) read(t table) {
	t.Allow(
		// | path of a program that runs before the lease counts
		"ready",
		// | path of a program that runs before the lease is undone, also if `ready` failed
		"leave",
		// `"20s"` | how long each may take, `leave` at most half of the epilog's remaining time
		"timeout",
		// `"job"` | if `ready` fails, the job is refused, and `leave` only warns; `"node"`: the node is
		// drained
		"fault",
	)
	h.Ready, h.Leave = readPath(t, "ready"), readPath(t, "leave")
	readTime(t, "timeout", &h.Timeout, minTimeout, maxTimeout)
	t.Choose("fault", &h.Fault, FaultJob, FaultNode)
}
