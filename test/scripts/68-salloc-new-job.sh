#!/bin/bash
# The batch script has salloc make another job.
#SBATCH --job-name=salloc-new-job
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1
#SBATCH --nodelist=node1

salloc --quiet --nodes=1 --ntasks=1 -w node2 --gres=nic:1 srun hostname
