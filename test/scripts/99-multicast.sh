#!/bin/bash
# A program finds a server by multicast.
#SBATCH --job-name=multicast
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --kill-on-bad-exit python3 ~/apps/multicast.py
