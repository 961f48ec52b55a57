package lease

import (
	"os"
	"path/filepath"
	"testing"

	"gresnet/lib/base/job"
	"gresnet/lib/lease/event"
)

// slurmctld answers for the component, and then not for the job's first one: the prolog that asks for
// the others cannot know them.
func TestAPrologOfAHeterogeneousJobsComponentAsksForTheOthers(t *testing.T) {
	program := filepath.Join(t.TempDir(), "scontrol")
	const script = `#!/bin/sh
case "$*" in
*-d\ 2) printf 'JobId=2 HetJobId=9 HetJobOffset=1 JobName=x\n   NodeList=node1\n   Socks/Node=*\n   JOB_GRES=nic:1\n     Nodes=node1 CPU_IDs=0 Mem=0 GRES=nic:1(IDX:0)\n   MinCPUsNode=1\n\n' ;;
*) echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1 ;;
esac
`
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	n, _ := heldNode(t, "[slurm]\nsource = [\"scontrol\"]\nscontrol = \""+program+"\"\n")
	n.Log = func(event.Event) {}
	err := n.Take(t.Context(), job.Job{ID: nextJob, UID: 1000, GID: 1000, Node: "node1", Nodes: "node1", Leader: 9})
	checkEnd(t, n, err, `where the other components of job 9 are: exit status 1: it says "slurm_load_jobs error: Invalid job id specified"`)
}
