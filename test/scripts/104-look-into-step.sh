#!/bin/bash
# A debugger looks into a step's process from another step, by ssh and from the batch script.
#SBATCH --job-name=look-into-step
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks=2

srun --exact --ntasks=1 --gres=none python3 ~/apps/target.py &
until [ -e "target.$SLURM_JOB_ID" ]; do sleep 0.3; done
srun --exact --ntasks=1 --gres=none bash ~/apps/look "$SLURM_JOB_ID" | sed 's/^/a step: /'
# shellcheck disable=SC2029 # this shell is to expand it
ssh "$(hostname)" bash apps/look "$SLURM_JOB_ID" | sed 's/^/ssh: /'
bash ~/apps/look "$SLURM_JOB_ID" | sed 's/^/the batch script: /'
touch "seen.$SLURM_JOB_ID"
wait
