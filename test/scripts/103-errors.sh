#!/bin/bash
# A program is told that nobody is there.
#SBATCH --job-name=errors
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label python3 ~/apps/errors.py
