#!/bin/bash
# MASTER_ADDR is the hostname of the batch script's node.
#SBATCH --job-name=slurm-hostname
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

MASTER_ADDR=$(hostname)
export MASTER_ADDR
export MASTER_PORT=29500

srun --kill-on-bad-exit python3 ~/apps/store.py
