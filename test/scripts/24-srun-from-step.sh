#!/bin/bash
# A step starts a step on both nodes.
#SBATCH --job-name=srun-from-step
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --nodes=1 --ntasks=1 srun --overlap --nodes=2 --ntasks=2 --label hostname
