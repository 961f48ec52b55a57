package network

import "testing"

func TestJobsTogetherBeginHalfOfAllConnectionsAtMost(t *testing.T) {
	for _, tracked := range []int{65536, 262144, 1 << 30} {
		for jobs := 0; jobs <= 4095; jobs++ {
			job, user := shares(tracked, jobs)
			if together := uint64(job) * uint64(jobs); together > uint64(tracked/2) {
				t.Fatalf("%d jobs begin %d of %d connections", jobs, together, tracked)
			}
			if job == 0 || user != uint32(tracked/16) || job > user {
				t.Fatalf("of %d, with %d jobs, a job has %d and a user %d", tracked, jobs, job, user)
			}
		}
	}
}
