#!/bin/bash
# The batch script forgets its job and starts another one, with srun, on the other node.
#SBATCH --job-name=srun-new-job
#SBATCH --nodes=1
#SBATCH --gres=nic:1
#SBATCH --ntasks-per-node=1
#SBATCH --nodelist=node1

unset "${!SLURM_@}"
srun --quiet --nodes=1 --ntasks=1 -w node2 --gres=nic:1 hostname
