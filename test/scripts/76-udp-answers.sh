#!/bin/bash
# Servers beside the cluster give short and long answers by UDP.
#SBATCH --job-name=udp-answers
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label python3 ~/apps/ask.py
