#!/bin/bash
# MASTER_ADDR is NodeAddr of scontrol show node.
#SBATCH --job-name=scontrol-nodeaddr
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
MASTER_ADDR=$(scontrol show node "${nodes[0]}" | grep -oP '(?<=NodeAddr=)\S+')
export MASTER_ADDR
export MASTER_PORT=29500

srun --kill-on-bad-exit python3 ~/apps/store.py
