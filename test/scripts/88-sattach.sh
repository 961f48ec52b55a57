#!/bin/bash
# The batch script attaches to a step's output.
#SBATCH --job-name=sattach
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --ntasks=1 bash -c "until [ -e seen.$SLURM_JOB_ID ]; do echo tick; sleep 1; done" >/dev/null &
until squeue --noheader --steps --job "$SLURM_JOB_ID" | grep -q "$SLURM_JOB_ID\.0"; do sleep 0.5; done
sattach "$SLURM_JOB_ID.0" | grep -m 1 tick
touch "seen.$SLURM_JOB_ID"
wait
