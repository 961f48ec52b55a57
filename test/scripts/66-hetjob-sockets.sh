#!/bin/bash
# The second component of a heterogeneous job calls the first one's node.
#SBATCH --job-name=hetjob-sockets
#SBATCH --nodes=1 --ntasks=1 --nodelist=node1
#SBATCH --gres=nic:1
#SBATCH hetjob
#SBATCH --nodes=1 --ntasks=1 --nodelist=node2
#SBATCH --gres=nic:1

MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_0" | head -n 1)
export MASTER_ADDR
export MASTER_PORT=29500

srun --het-group=0,1 --kill-on-bad-exit python3 ~/apps/store.py
