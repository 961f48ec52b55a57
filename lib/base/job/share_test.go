package job_test

import (
	"testing"

	"gresnet/lib/base/job"
)

func TestAJobThatHasTheNodeToItself(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string
		want  bool
	}{
		{"26.05, exclusive", []string{"SLURM_JOB_EXCLUSIVE=NODE", "SLURM_JOB_OVERSUBSCRIBE=NO"}, true},
		{"26.05, a segment of the topology", []string{"SLURM_JOB_EXCLUSIVE=TOPO"}, false},
		{"26.05, plain", []string{"SLURM_JOB_EXCLUSIVE=NO", "SLURM_JOB_OVERSUBSCRIBE=NO", "SLURM_JOB_CPUS_PER_NODE=16"}, false},
		{"26.05, of one user", []string{"SLURM_JOB_EXCLUSIVE=USER", "SLURM_JOB_OVERSUBSCRIBE=NO"}, false},
		{"24.11, exclusive", []string{"SLURM_JOB_OVERSUBSCRIBE=NO"}, true},
		{"24.11, plain", []string{"SLURM_JOB_OVERSUBSCRIBE=OK", "SLURM_JOB_CPUS_PER_NODE=16"}, false},
		{"24.11, of one user", []string{"SLURM_JOB_OVERSUBSCRIBE=USER", "SLURM_JOB_CPUS_PER_NODE=16"}, false},
		{"22.05, all CPUs", []string{"SLURM_JOB_CPUS_PER_NODE=16"}, true},
		{"22.05, all CPUs of several nodes", []string{"SLURM_JOB_CPUS_PER_NODE=16(x3)"}, true},
		{"22.05, some CPUs", []string{"SLURM_JOB_CPUS_PER_NODE=8"}, false},
		{"22.05, nodes that differ", []string{"SLURM_JOB_CPUS_PER_NODE=16,8"}, false},
		{"22.05, groups of nodes that differ", []string{"SLURM_JOB_CPUS_PER_NODE=16(x2),8(x3)"}, false},
		{"22.05, nothing that can be read", []string{"SLURM_JOB_CPUS_PER_NODE=16(x3"}, false},
		{"nothing said", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := job.FromEnv(env(append(c.lines, whole...)...))
			if err != nil {
				t.Fatal(err)
			}
			if got := j.Share.Whole(16); got != c.want {
				t.Errorf("%+v: whole %t, want %t", j.Share, got, c.want)
			}
		})
	}
	if (job.Share{}).Whole(0) {
		t.Error("an unknown job has an unknown node")
	}
}
