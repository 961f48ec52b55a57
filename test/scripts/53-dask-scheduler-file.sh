#!/bin/bash
# Dask's scheduler writes its address into a file, and workers and client read it.
#SBATCH --job-name=dask-scheduler-file
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

file=scheduler.$SLURM_JOB_ID.json
srun --overlap --nodes=1 --ntasks=1 dask-scheduler --scheduler-file "$file" --no-dashboard &
srun --overlap dask-worker --scheduler-file "$file" --nthreads 1 --no-dashboard &

srun --overlap --nodes=1 --ntasks=1 python3 ~/apps/dask-client.py "$file"
