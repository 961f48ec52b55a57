#!/bin/bash
# Three tasks, the first of which serves the others.
#SBATCH --job-name=parameter-server
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks=3

PS_HOST=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export PS_HOST
export PS_PORT=2222

srun --kill-on-bad-exit python3 ~/apps/parameter-server.py
