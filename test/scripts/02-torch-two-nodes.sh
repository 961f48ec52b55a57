#!/bin/bash
# torch.distributed on two nodes, with MASTER_ADDR as everybody writes it.
#SBATCH --job-name=torch-two-nodes
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1
#SBATCH --time=30

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_ADDR
export MASTER_PORT=29500

srun --kill-on-bad-exit python3 ~/apps/train.py
