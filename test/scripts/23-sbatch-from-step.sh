#!/bin/bash
# A step submits a batch job and waits for it.
#SBATCH --job-name=sbatch-from-step
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks=1

srun sbatch --wait --output next.out --wrap 'echo the next job' >/dev/null || exit
cat next.out
