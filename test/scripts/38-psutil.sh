#!/bin/bash
# A program takes the address of its first interface, as psutil lists them.
#SBATCH --job-name=psutil
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --kill-on-bad-exit python3 ~/apps/peers.py psutil
