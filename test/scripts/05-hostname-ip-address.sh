#!/bin/bash
# MASTER_ADDR is what hostname --ip-address says on the first node.
#SBATCH --job-name=hostname-ip-address
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1
#SBATCH --time=30

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
head_node=${nodes[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)

export MASTER_ADDR=$head_node_ip
export MASTER_PORT=29500

srun --kill-on-bad-exit python3 ~/apps/store.py
