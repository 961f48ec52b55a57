#!/bin/bash
# torchrun on two nodes, which meet at the first one.
#SBATCH --job-name=torchrun-rdzv
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1
#SBATCH --time=30

head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun --kill-on-bad-exit torchrun \
	--nnodes=2 --nproc_per_node=1 \
	--rdzv_id="$SLURM_JOB_ID" --rdzv_backend=c10d --rdzv_endpoint="$head_node:29400" \
	~/apps/train.py
