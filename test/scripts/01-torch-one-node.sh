#!/bin/bash
# torch.distributed on one node, with MASTER_ADDR as everybody writes it.
#SBATCH --job-name=torch-one-node
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=2
#SBATCH --time=30

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR
export MASTER_PORT=29500

srun --kill-on-bad-exit python3 ~/apps/train.py
