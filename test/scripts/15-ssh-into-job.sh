#!/bin/bash
# on the login node: look at a running job's server from its own node
job=$(sbatch --parsable -w node2 ~/apps/server.sbatch 8000)
until [ -e "server.$job" ]; do sleep 1; done

ssh node2 'curl -sS --max-time 30 http://localhost:8000/motd'
status=$?

scancel "$job"
exit $status
