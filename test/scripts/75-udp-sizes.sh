#!/bin/bash
# Datagrams of all sizes go to the job's other node and back, the first of each size, too.
#SBATCH --job-name=udp-sizes
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
srun --kill-on-bad-exit python3 ~/apps/udp.py "${nodes[0]}"
