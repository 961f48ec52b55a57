#!/bin/bash
# A program asks the kernel about the node's interface, as programs in C do.
#SBATCH --job-name=interface-calls
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --label python3 ~/apps/interface-calls.py
