package job

import (
	"strconv"
	"strings"
)

// Share is what Slurm says of sharing a job's nodes. Which of it there is
// depends on the version.
type Share struct {
	Exclusive     string // since 26.05: NO, NODE, USER, MCS, TOPO
	Oversubscribe string // since 23.02: NO, YES, OK, …
	CPUs          int    // of this node, if the job has as many on each of its nodes
}

func shareFrom(getenv func(string) string) Share {
	return Share{
		Exclusive:     getenv("SLURM_JOB_EXCLUSIVE"),
		Oversubscribe: getenv("SLURM_JOB_OVERSUBSCRIBE"),
		CPUs:          cpusPerNode(getenv("SLURM_JOB_CPUS_PER_NODE")),
	}
}

// Whole tells whether the job has a node of so many CPUs to itself.
//
// TOPO does not say that: any user may ask for it, and where the topology is flat or a tree, slurmctld gives the rest of
// the node to other jobs (Slurm src/plugins/select/cons_tres/job_test.c:_block_by_topology).
//
// Where there is SLURM_JOB_EXCLUSIVE, it alone counts: SLURM_JOB_OVERSUBSCRIBE
// is NO of nearly every job there (Slurm src/common/slurm_protocol_defs.c:
// get_job_oversubscribe_value). Before, NO meant that nobody shares the job's
// nodes (job_share_string, JOB_SHARED_NONE). Slurm 22.05 says neither.
func (s Share) Whole(cpus int) bool {
	switch {
	case s.Exclusive != "":
		return s.Exclusive == "NODE"
	case s.Oversubscribe != "":
		return s.Oversubscribe == "NO"
	}
	return cpus > 0 && s.CPUs == cpus
}

// cpusPerNode is N for "N" and "N(x3)". It is 0 for nodes that differ, "4(x2),2(x3)",
// of which it is not said which one is this
// (Slurm src/common/slurm_protocol_api.c:uint32_compressed_to_str).
func cpusPerNode(text string) int {
	count, times, repeated := strings.Cut(text, "(x")
	if repeated && (!strings.HasSuffix(times, ")") || strings.Contains(times, ",")) {
		return 0
	}
	n, err := strconv.ParseUint(count, 10, 16)
	if err != nil {
		return 0
	}
	return int(n)
}

// features returns the features that a constraint requires of every node. One that
// leaves a choice, or counts nodes, requires none for certain.
func features(constraint string) []string {
	if constraint == "" || strings.ContainsAny(constraint, "|[]()*") {
		return nil
	}
	return strings.FieldsFunc(constraint, func(c rune) bool { return c == '&' || c == ',' })
}
