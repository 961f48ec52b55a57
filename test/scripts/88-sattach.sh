#!/bin/bash
# The batch script attaches to a step's output.
#SBATCH --job-name=sattach
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1

srun --ntasks=1 bash -c "until [ -e seen.$SLURM_JOB_ID ]; do echo tick; sleep 1; done" >/dev/null &
# A step is there before its tasks are, and sattach says so then.
until sattach "$SLURM_JOB_ID.0" 2>/dev/null | grep -m 1 tick; do sleep 1; done
touch "seen.$SLURM_JOB_ID"
wait
