#!/bin/bash
# A task tunnels by ssh to a server of the job on the other node.
#SBATCH --job-name=ssh-tunnel-nodes
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
srun --overlap --nodes=1 --ntasks=1 -w "${nodes[1]}" bash -c "cd apps; exec python3 -m http.server --bind localhost 8000" >/dev/null 2>&1 &
server=$!
ssh -f -o ExitOnForwardFailure=yes -L 8001:localhost:8000 "${nodes[1]}" sleep 60
curl -sS --retry 30 --retry-delay 1 --retry-all-errors http://localhost:8001/motd
status=$?
kill $server
wait
exit $status
