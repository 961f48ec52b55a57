#!/bin/bash
# Dask's scheduler at the first node's name, and its workers.
#SBATCH --job-name=dask
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1
#SBATCH --time=30

head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)

srun --overlap --nodes=1 --ntasks=1 -w "$head_node" dask-scheduler --port 8786 --no-dashboard &
srun --overlap dask-worker "tcp://$head_node:8786" --nthreads 1 --no-dashboard &

srun --overlap --nodes=1 --ntasks=1 -w "$head_node" python3 ~/apps/dask-client.py "tcp://$head_node:8786"
