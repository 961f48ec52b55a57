#!/bin/bash
# on the login node: a server in a job that shares the node with others
job=$(sbatch --parsable --ntasks=1 -w node2 ~/apps/server.sbatch 8000)
until [ -e "server.$job" ]; do sleep 1; done

curl -sS --max-time 30 "http://$(squeue -h -j "$job" -o %N):8000/motd"
status=$?

scancel "$job"
exit $status
