#!/bin/bash
# on the login node: Jupyter's recipe, a tunnel to a port in the job
job=$(sbatch --parsable -w node2 ~/apps/server.sbatch 8888)
until [ -e "server.$job" ]; do sleep 1; done
node=$(squeue -h -j "$job" -o %N)

ssh -N -L 8889:localhost:8888 "$node" &
tunnel=$!
curl -sS --max-time 60 --retry 20 --retry-delay 1 --retry-connrefused http://localhost:8889/motd
status=$?

kill $tunnel
scancel "$job"
exit $status
