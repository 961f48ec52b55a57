#!/bin/bash
# A web server on one node that listens at the node's address alone, and a client on the other.
#SBATCH --job-name=http-between-nodes
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
srun --overlap --nodes=1 --ntasks=1 -w "${nodes[1]}" bash -c "cd apps; exec python3 -m http.server --bind $(getent ahostsv4 "${nodes[1]}" | awk '{print $1; exit}') 8000" >/dev/null 2>&1 &
server=$!
srun --overlap --nodes=1 --ntasks=1 -w "${nodes[0]}" curl -sS --retry 30 --retry-delay 1 --retry-connrefused "http://${nodes[1]}:8000/motd"
status=$?
kill $server
wait
exit $status
