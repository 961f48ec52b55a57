#!/bin/bash
# Each node pings each of the job's nodes.
#SBATCH --job-name=ping
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
for node in "${nodes[@]}"; do
	srun --label ping -q -c 1 -w 20 "$node" | grep -E 'packets transmitted' | sed 's/, time.*//'
done
