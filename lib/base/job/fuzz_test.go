package job_test

import (
	"slices"
	"strconv"
	"testing"

	"gresnet/lib/base/job"
	"gresnet/lib/base/node"
)

func FuzzEnv(f *testing.F) {
	f.Add("4711", "1000", "100", "2", "s8KQ3V7Z1", "0-3,6")
	f.Add("1", "0", "0", "", "", "")
	f.Add("../x", "-1", "1 ", "1099511627776", "../../x", "0-4095,0-4095")
	f.Fuzz(func(t *testing.T, id, uid, gid, restart, sluid, gpus string) {
		vars := map[string]string{
			"SLURM_JOB_ID": id, "SLURM_JOB_UID": uid, "SLURM_JOB_GID": gid,
			"SLURM_JOB_RESTART_COUNT": restart, "SLURM_JOB_SLUID": sluid, "SLURM_JOB_GPUS": gpus,
		}
		getenv := func(name string) string { return vars[name] }
		j, err := job.FromEnv(getenv)
		if err != nil {
			return
		}
		if j.ID == 0 || strconv.FormatUint(uint64(j.ID), 10) != id {
			t.Errorf("SLURM_JOB_ID %q is job %d", id, j.ID)
		}
		if run, err := job.ParseRun(j.Run.String()); err != nil || run != j.Run {
			t.Errorf("run %q parses as %+v, %v, want %+v", j.Run, run, err, j.Run)
		}
		if len(j.GPUs) > 1024 || !slices.IsSorted(j.GPUs) {
			t.Errorf("SLURM_JOB_GPUS %q is %d indices: %v", gpus, len(j.GPUs), j.GPUs)
		}
		for i, g := range j.GPUs {
			if g < 0 || g > node.MaxIndex || i > 0 && g == j.GPUs[i-1] {
				t.Errorf("SLURM_JOB_GPUS %q is %v", gpus, j.GPUs)
			}
		}
		if len(j.GPUs) > 0 {
			again, err := node.ParseIndices(node.FormatIndices(j.GPUs))
			if err != nil || !slices.Equal(again, j.GPUs) {
				t.Errorf("%v prints %q, which parses as %v, %v", j.GPUs, node.FormatIndices(j.GPUs), again, err)
			}
		}
		ended, err := job.Ended(getenv)
		if err != nil || ended.ID != j.ID || ended.Run != j.Run || ended.UID != j.UID {
			t.Errorf("the prolog sees %+v, the epilog %+v, %v", j, ended, err)
		}
	})
}
