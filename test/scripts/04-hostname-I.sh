#!/bin/bash
# MASTER_ADDR is the first word of hostname -I.
#SBATCH --job-name=hostname-I
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1
#SBATCH --time=30

# the batch script runs on the first node
MASTER_ADDR=$(hostname -I | awk '{print $1}')
export MASTER_ADDR
export MASTER_PORT=12355

srun --kill-on-bad-exit python3 ~/apps/store.py
