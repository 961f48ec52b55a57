#!/bin/bash
# A step starts another job and waits for it.
#SBATCH --job-name=step-new-job
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1
#SBATCH --nodelist=node1

# shellcheck disable=SC2016 # the tasks expand it
srun --ntasks=1 bash -c 'unset "${!SLURM_@}"; srun --quiet --nodes=1 --ntasks=1 -w node2 --gres=nic:1 hostname'
