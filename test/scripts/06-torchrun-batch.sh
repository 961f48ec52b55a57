#!/bin/bash
# torchrun in the batch script, on one node.
#SBATCH --job-name=torchrun-batch
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
#SBATCH --time=30

torchrun --standalone --nproc_per_node=2 ~/apps/train.py
