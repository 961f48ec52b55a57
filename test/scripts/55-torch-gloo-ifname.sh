#!/bin/bash
# torch.distributed is told the interface by its name.
#SBATCH --job-name=torch-gloo-ifname
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
export MASTER_ADDR=${nodes[0]} GLOO_SOCKET_IFNAME=eth0
export MASTER_PORT=29500

srun --kill-on-bad-exit python3 ~/apps/train.py
