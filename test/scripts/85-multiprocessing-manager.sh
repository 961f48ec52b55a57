#!/bin/bash
# A queue of Python's multiprocessing that tasks on both nodes take from.
#SBATCH --job-name=multiprocessing-manager
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${nodes[0]}
srun --kill-on-bad-exit python3 ~/apps/manager.py
