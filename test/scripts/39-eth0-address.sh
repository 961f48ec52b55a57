#!/bin/bash
# A program takes the address of the interface eth0.
#SBATCH --job-name=eth0-address
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --kill-on-bad-exit python3 ~/apps/peers.py eth0
