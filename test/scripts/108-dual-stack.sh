#!/bin/bash
# Servers listen on all addresses of IPv4 and IPv6, and are called by names and by addresses of the loopback.
#SBATCH --job-name=dual-stack
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --kill-on-bad-exit --label python3 ~/apps/dual-stack.py
