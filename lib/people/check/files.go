package check

import (
	"io/fs"

	"gresnet/lib/kernel/sysfs"
	"gresnet/lib/slurm"
)

// What the relay for PMIx takes of slurmstepd's descriptors (spank/pmix.c): three for
// each connection, one for each task and some to spare, besides those that are open.
const (
	connectionsSpare = 16
	descriptorsSpare = 64
)

// opened is what slurmstepd has open itself: pipes to a task's standard streams, and others.
const (
	openedPerTask = 3
	openedAtLeast = 32
)

// files warns of a slurmd whose slurmstepds may not open what the relay for PMIx needs
// with a task on each CPU. slurmstepd has slurmd's limits, and the relay raises the soft one.
func (s Site) files() []Finding {
	const about = "slurmd"
	sys, err := fs.Sub(s.Root, "sys")
	if err != nil {
		return nil
	}
	tasks, err := sysfs.CPUs(sys)
	if err != nil {
		return nil
	}
	needs := uint64(3*(tasks+connectionsSpare) + descriptorsSpare + openedPerTask*tasks + openedAtLeast)
	for _, dir := range slurm.Daemons(s.Root) {
		if may, known := slurm.HardLimit(s.Root, dir, "Max open files"); known && may < needs {
			return []Finding{warn(about, "GN070 raise LimitNOFILE of its unit", "its slurmstepds may open %d files, and relaying PMIx to a task on each of %d CPUs takes %d", may, tasks, needs)}
		}
	}
	return nil
}
