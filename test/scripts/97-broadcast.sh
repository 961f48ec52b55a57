#!/bin/bash
# A server tells by a broadcast where it is.
#SBATCH --job-name=broadcast
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --kill-on-bad-exit python3 ~/apps/broadcast.py
