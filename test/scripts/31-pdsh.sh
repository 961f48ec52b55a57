#!/bin/bash
# pdsh runs a command on each node of the job.
#SBATCH --job-name=pdsh
#SBATCH --nodes=2
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --nodes=1 --ntasks=1 pdsh -R ssh -w "$SLURM_JOB_NODELIST" hostname
