package config

import (
	"math"
)

// Limits is the table [limits]: how much of each of its HCAs a job may use, as
// the kernel's rdma controller counts it. 0 is without limit.
type Limits struct {
	Handles int // open contexts
	Objects int // protection domains, memory regions, queues and the like
}

func (l *Limits) read(t table) {
	t.Allow(
		// no limit | open contexts for each of its HCAs, of all its processes together; 1 to 2147483647
		"hca_handle",
		// no limit | protection domains, memory regions, queue pairs, completion queues and the like,
		// counted in the same way
		"hca_object",
	)
	l.Handles = readLimit(t, "hca_handle")
	l.Objects = readLimit(t, "hca_object")
}

// readLimit reads a number that the kernel takes (kernel/cgroup/rdma.c:parse_resource),
// 0 if the key is not there.
func readLimit(t table, key string) int {
	n, there := valueOf[int64](t, key, "a number")
	if there && (n < 1 || n > math.MaxInt32) {
		t.Fail(key, "GN147 leave the key out for no limit", "%d is not from 1 to %d", n, math.MaxInt32)
		return 0
	}
	return int(n)
}
