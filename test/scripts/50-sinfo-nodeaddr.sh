#!/bin/bash
# MASTER_ADDR is what sinfo has as the node's address.
#SBATCH --job-name=sinfo-nodeaddr
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_ADDR=$(sinfo --noheader --nodes "${nodes[0]}" --format %o)
export MASTER_ADDR
export MASTER_PORT=29500

srun --kill-on-bad-exit python3 ~/apps/store.py
