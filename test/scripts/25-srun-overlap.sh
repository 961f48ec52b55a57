#!/bin/bash
# on the login node: look into a running job
job=$(sbatch --parsable -w node2 ~/apps/server.sbatch 8000)
until [ -e "server.$job" ]; do sleep 1; done

srun --overlap --jobid "$job" curl -sS --max-time 30 http://localhost:8000/motd
status=$?

scancel "$job"
exit $status
