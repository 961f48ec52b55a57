#!/bin/bash
# A step asks Slurm about its job and the cluster.
#SBATCH --job-name=slurm-commands
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks=1

srun bash -e <<'STEP'
squeue --noheader --job "$SLURM_JOB_ID" --format '%j %T'
scontrol show job "$SLURM_JOB_ID" | grep -o 'JobState=[A-Z]*'
sinfo --noheader --format '%P %D'
STEP
