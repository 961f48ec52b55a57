#!/bin/bash
# netcat carries a file of some megabytes from one node to the other.
#SBATCH --job-name=tcp-bulk
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
seq 1000000 >"bulk.$SLURM_JOB_ID"
srun --overlap --nodes=1 --ntasks=1 -w "${nodes[1]}" bash -c "nc -l 7010 | md5sum" &
srun --overlap --nodes=1 --ntasks=1 -w "${nodes[0]}" bash -c "until nc -N ${nodes[1]} 7010 <bulk.$SLURM_JOB_ID; do sleep 1; done"
wait
