#!/bin/bash
# Each of four tasks listens at its host's name and calls all others.
#SBATCH --job-name=all-to-all
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2

srun --kill-on-bad-exit python3 ~/apps/all-to-all.py
